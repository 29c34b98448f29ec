"""Lines a user may add to `types` where a module's kind is not known: guesses from names and shapes, to be read first.

Not here: decisions. Nothing in the package acts on these guesses; they are printed when a conversion stops.
Heuristics: burn-spec 7.5 and recipes.md C.3, "Without a template".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["module_of", "suggest_types"]

_LIKE_EMBEDDING = re.compile(r"emb|wte|wpe|token|position|shared$|vocab", re.IGNORECASE)
_LIKE_RMS = re.compile(r"rms", re.IGNORECASE)
_LIKE_TRANSPOSED = re.compile(r"transpose|deconv|up(sampl|conv)", re.IGNORECASE)
_GATES = {4: "Lstm", 3: "Gru", 1: "Rnn"}
_PARAMETRIZED = ".parametrizations."
_WHOLE = (
    "weight",
    "gamma",
    "weight_v",
    "weight_orig",
    "parametrizations.weight.original1",
    "parametrizations.weight.original",
)
"""What has the shape of a layer's weight: itself, or the factor of a normed one that does."""

Leaves = Mapping[str, tuple[int, ...]]


def module_of(name: str) -> str:
    """Return the path of the module that a parameter belongs to; those of a parametrization belong to what it changes."""
    owner, sign, _ = f".{name}".partition(_PARAMETRIZED)
    return owner[1:] if sign else name.rpartition(".")[0]


def suggest_types(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    r"""Return YAML lines for the `types` section, most specific first, modules of one shape of name together.

    Args:
        shapes: name and shape of every parameter whose module is in question.

    Returns:
        Lines such as `  - ['^layers\.\d+\.fc$', Linear]`; a guess that the shapes do not bear out ends in a comment.
    """
    modules: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        path = module_of(name)
        modules.setdefault(path, {})[name[len(path) :].removeprefix(".")] = shape
    lines: dict[str, None] = {}
    for path, leaves in modules.items():
        kind, doubt = _guess(path, leaves)
        if kind:
            comment = f"   # {doubt}" if doubt else ""
            lines[f"  - ['{_pattern(path)}', {kind}]{comment}"] = None
    return tuple(lines)


def _pattern(path: str) -> str:
    """Return a regex for `path` with every index open."""
    segments = [r"\d+" if segment.isdecimal() else re.escape(segment) for segment in path.split(".")]
    return f"^{re.escape('.').join(segments)}$".replace("'", "''")


def _guess(path: str, leaves: Leaves) -> tuple[str, str]:
    """Return (kind, what is doubtful about it); "" for no guess."""
    certain = _by_leaves(leaves)
    if certain:
        return certain, ""
    weight = next((leaves[leaf] for leaf in _WHOLE if leaf in leaves), ())
    has_bias = not leaves.keys().isdisjoint({"bias", "beta"})
    match len(weight):
        case 1:
            return _vector(path, weight, has_bias=has_bias)
        case 2:
            return _matrix(path, weight, has_bias=has_bias)
        case 3 | 4 | 5 as rank:
            transposed = "Transpose" if _LIKE_TRANSPOSED.search(path) else ""
            return f"Conv{transposed}{rank - 2}d", ""
        case _:
            return "", ""


def _by_leaves(leaves: Leaves) -> str:
    """Return the kind that parameter names give away."""
    if "running_mean" in leaves:
        return "BatchNorm"
    if "in_proj_weight" in leaves:
        return "Mha"
    if "q_proj_weight" in leaves:
        return "CrossAttention"
    if "alpha" in leaves:
        return "PRelu"
    match leaves.get("weight_hh_l0"):
        case (rows, hidden) if hidden and rows % hidden == 0 and rows // hidden in _GATES:
            return ("Bi" if "weight_hh_l0_reverse" in leaves else "") + _GATES[rows // hidden]
        case _:
            return ""


def _matrix(path: str, shape: tuple[int, ...], *, has_bias: bool) -> tuple[str, str]:
    if not has_bias and _LIKE_EMBEDDING.search(path.rpartition(".")[2]):
        return "Embedding", ""
    square = "square: no shape check would notice a missing transpose" if shape[0] == shape[1] else ""
    return "Linear", square if has_bias else "no bias: an Embedding looks the same"


def _vector(path: str, shape: tuple[int, ...], *, has_bias: bool) -> tuple[str, str]:
    if has_bias:
        return "LayerNorm", "a GroupNorm looks the same"
    if shape == (1,):
        return "PRelu", ""
    return "RmsNorm", "" if _LIKE_RMS.search(path) else "a LayerNorm without bias or a PRelu looks the same"
