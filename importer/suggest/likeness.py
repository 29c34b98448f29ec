"""How alike two module paths are: words, the roles they stand for, and the spellings libraries use for one role.

Not here: shapes (`importer.suggest.fitting`) and what is decided from both (`importer.suggest.assigning`).
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["are_foreign", "has_rotary_role", "hint", "likeness", "role", "says_the_same"]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NOISE = frozenset(
    {"layer", "layers", "block", "blocks", "h", "model", "module", "proj", "lin", "linear", "dense", "fc"}
)
"""Words that say nothing about which of several siblings is meant."""

_SYNONYMS = {
    "q": "query", "wq": "query", "k": "key", "wk": "key", "v": "value", "wv": "value",
    "o": "output", "wo": "output", "out": "output", "outer": "output",
    "attn": "attention", "mha": "attention", "self": "self",
    "ff": "mlp", "ffn": "mlp", "pwff": "mlp", "feed": "mlp", "forward": "mlp", "intermediate": "inner",
    "embed": "embedding", "embeddings": "embedding", "emb": "embedding", "tok": "token", "word": "token",
    "wte": "token", "wpe": "position", "pos": "position", "positional": "position", "segment": "type",
    "ln": "norm", "bn": "norm", "gn": "norm", "layernorm": "norm", "layernorms": "norm", "rmsnorm": "norm",
    "normalization": "norm", "batchnorm": "norm", "convolution": "conv", "downsampling": "downsample",
    "shortcut": "downsample", "classifier": "head", "lm": "head", "decoder": "decoder", "predictions": "head",
    "mlm": "head", "up": "up", "gate": "gate", "cross": "cross", "encdecattention": "cross",
}  # fmt: skip
_ROLES = (
    ("type", re.compile(r"token_?type|segment", re.IGNORECASE)),
    ("position", re.compile(r"(^|\.)(embed_)?pos(ition(al|s)?)?(_?emb(ed(ding)?s?)?)?$|(^|\.)wpe$", re.IGNORECASE)),
    ("token", re.compile(r"(^|[._])(tok(en)?s?|words?)_?emb|(^|\.)(wte|shared)$|(^|\.)embed_tokens$", re.IGNORECASE)),
    ("query", re.compile(r"(^|\.)(w_?q|(to_)?q(uery)?)(_?(proj|lin|linear))?$", re.IGNORECASE)),
    ("key", re.compile(r"(^|\.)(w_?k|(to_)?k(ey)?)(_?(proj|lin|linear))?$", re.IGNORECASE)),
    ("value", re.compile(r"(^|\.)(w_?v|(to_)?v(alue)?)(_?(proj|lin|linear))?$", re.IGNORECASE)),
)
_HINTS = (
    ("gate", re.compile(r"(^|[._])(gate(_proj)?|w1|swiglu\.linear_inner)$")),
    ("up", re.compile(r"(^|[._])(up(_proj)?|w3|swiglu\.linear_outer)$")),
    ("down", re.compile(r"(^|[._])(down(_proj)?|w2)$")),
    ("head", re.compile(r"^(lm_head|output|head|embed_out|proj_out|classifier|fc)$")),
    ("norm of attention", re.compile(
        r"(^|\.)(norm_?1|ln_?1|layer_?norm_?1|attn_?(layer_?)?norm|attention_norm|input_layernorm|attn_ln"
        r"|(sa|self_attn)_layer_norm|layernorm_before|attention(\.output)?\.LayerNorm)$")),
    ("norm of mlp", re.compile(
        r"(^|\.)(norm_?2|ln_?2|layer_?norm_?2|(ffn|mlp)_?(layer_?)?norm|post_(attention|feedforward)_layernorm|mlp_ln"
        r"|(output|final|full_layer)_layer_norm|layernorm_after|(?<!attention\.)output\.LayerNorm)$")),
)  # fmt: skip
"""Spellings that usually mean the same; good enough to order a draft, not to leave a mark out."""
_ROTARY = frozenset({"query", "key"})
_NORM_OF_ROTARY = re.compile(r"(^|\.)(q|k|query|key)_?(layer)?_?norm$", re.IGNORECASE)
_LAST_WEIGHT = 0.5


def likeness(one: str, other: str) -> float:
    """Return how alike two paths are, from 0 to 1; the last segments count half of it."""
    last = _overlap(_words(one.rpartition(".")[2]), _words(other.rpartition(".")[2]))
    if hint(one) is not None and hint(other) is not None:
        last = float(hint(one) == hint(other))
    return _LAST_WEIGHT * last + (1 - _LAST_WEIGHT) * _overlap(_words(one), _words(other))


def says_the_same(one: str, other: str) -> bool:
    """Whether the last segments are one word in two spellings (`LayerNorm`, `layer_norm`), or name one role."""
    plain = _plain(one)
    if plain == _plain(other):
        return not plain.isdecimal() or one == other
    return role(one) is not None and role(one) == role(other)


def are_foreign(one: str, other: str) -> bool:
    """Whether two paths both say something, and have no word and no hint in common."""
    words = [{word for word in _words(path) if not word.isdecimal()} for path in (one, other)]
    return all(words) and not words[0] & words[1] and (hint(one) is None or hint(one) != hint(other))


@lru_cache(maxsize=4096)
def role(path: str) -> str | None:
    """Return the role that a path's last segment names (query, key, value, token, position, type), or None."""
    return next((name for name, pattern in _ROLES if pattern.search(path)), None)


@lru_cache(maxsize=4096)
def hint(path: str) -> str | None:
    """Return the role, or what the spelling usually means, or None."""
    return role(path) or next((name for name, pattern in _HINTS if pattern.search(path)), None)


def has_rotary_role(path: str) -> bool:
    """Whether a path names a query or key projection, or a norm of either: what a rotary embedding may permute."""
    return role(path) in _ROTARY or _NORM_OF_ROTARY.search(path) is not None


@lru_cache(maxsize=4096)
def _plain(path: str) -> str:
    """Return the letters and digits of a path's last segment."""
    return re.sub(r"[^a-z0-9]", "", path.rpartition(".")[2].lower())


@lru_cache(maxsize=4096)
def _words(path: str) -> frozenset[str]:
    words = (word.lower() for word in _WORDS.findall(path))
    return frozenset(_SYNONYMS.get(word, word) for word in words) - _NOISE


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0
