"""Lines a user may add to `types` where a module's kind is not known: guesses from names and shapes, to be read first.

What is printed can be followed as it is: no two lines speak of one module, none reaches a module that was not in
question, and every kind takes the parameters it is suggested for. Not here: decisions. Nothing in the package acts on
these guesses; they are printed when a conversion stops. How lines become patterns: `path_patterns`.
Heuristics: burn-spec 7.5 and recipes.md C.3, "Without a template".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from importer.adapters.path_patterns import pattern_of, patterns_for
from importer.adapters.table import LAYERS
from importer.arrays import full
from importer.dtypes import F32

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
_KEPT = "no layer has these parameters together: kept as they lie"

Shape = tuple[int, ...]
Leaves = Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class _Guess:
    """A kind for a path, and what is doubtful about it."""

    kind: str
    doubt: str = ""


def module_of(name: str) -> str:
    """Return the path of the module that a parameter belongs to; those of a parametrization belong to what it changes."""
    owner, sign, _ = f".{name}".partition(_PARAMETRIZED)
    return owner[1:] if sign else name.rpartition(".")[0]


def suggest_types(shapes: Mapping[str, Shape], beside: Mapping[str, Shape] | None = None) -> tuple[str, ...]:
    r"""Return YAML lines for the `types` section, modules of one shape of name together.

    Args:
        shapes: name and shape of every parameter whose module is in question.
        beside: the other parameters of the checkpoint. They tell what else a module holds, and what no line may reach.

    Returns:
        Lines such as `  - ['^layers\.\d+\.fc$', Linear]`; a guess that the shapes do not bear out ends in a comment.
    """
    everything = {**(beside or {}), **shapes}
    alike: dict[str, set[str]] = {}
    for path in {*everything, *(above for name in everything for above in _above(name))}:
        alike.setdefault(pattern_of(path), set()).add(path)
    by_kind: dict[tuple[str, str], dict[str, _Guess]] = {}
    for path, guess in _guesses(shapes, everything):
        by_kind.setdefault((pattern_of(path), guess.kind), {})[path] = guess
    lines = []
    for (pattern, kind), guesses in by_kind.items():
        doubts = "; ".join(dict.fromkeys(guess.doubt for guess in guesses.values() if guess.doubt))
        comment = f"   # {doubts}" if doubts else ""
        for found in patterns_for(list(guesses), alike[pattern] - guesses.keys()):
            quoted = found.replace("'", "''")
            lines.append(f"  - ['{quoted}', {kind}]{comment}")
    return tuple(lines)


def _guesses(shapes: Mapping[str, Shape], everything: Mapping[str, Shape]) -> Iterator[tuple[str, _Guess]]:
    """Yield path and guess: a module each, none inside another one's, or a bare parameter where no kind fits."""
    in_question: dict[str, list[str]] = {}
    for name in shapes:
        in_question.setdefault(module_of(name), []).append(name)
    inside: dict[str, dict[str, Shape]] = {}
    for name, shape in everything.items():
        for path in _above(name):
            if path in in_question:
                inside.setdefault(path, {})[name[len(path) :].removeprefix(".")] = shape
    taken: set[str] = set()
    for path in sorted(in_question, key=lambda one: one.count(".") + bool(one)):
        names = [name for name in in_question[path] if name not in taken]
        guess = _guess(path, {leaf: shape for leaf, shape in inside[path].items() if _is_own(leaf)}) if names else None
        kind = guess.kind if guess is not None else "Param"
        leaves = {leaf: shape for leaf, shape in inside[path].items() if LAYERS[kind].may_own(leaf)}
        if guess is not None and _takes(kind, leaves):
            taken.update(f"{path}.{leaf}" if path else leaf for leaf in leaves)
            yield path, guess
        else:
            yield from ((name, _Guess("Param", _KEPT)) for name in names)


def _is_own(leaf: str) -> bool:
    """Whether a name inside a module is a parameter of the module itself, or of a parametrization of one."""
    return "." not in leaf or leaf.startswith(_PARAMETRIZED[1:])


def _takes(kind: str, leaves: Leaves) -> bool:
    """Whether a kind takes parameters of these names and shapes across without a fault."""
    zeros = {leaf: full(0, F32, shape) for leaf, shape in leaves.items()}
    return not LAYERS[kind].to_burn(zeros, {}).faults


def _above(name: str) -> Iterator[str]:
    """Yield every module path above a name, the top ("") last."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _guess(path: str, leaves: Leaves) -> _Guess | None:
    certain = _by_leaves(leaves)
    if certain:
        return _Guess(certain)
    weight = next((leaves[leaf] for leaf in _WHOLE if leaf in leaves), ())
    has_bias = not leaves.keys().isdisjoint({"bias", "beta"})
    match len(weight):
        case 1:
            return _vector(path, weight, has_bias=has_bias)
        case 2:
            return _matrix(path, weight, has_bias=has_bias)
        case 3 | 4 | 5 as rank:
            transposed = "Transpose" if _LIKE_TRANSPOSED.search(path) else ""
            return _Guess(f"Conv{transposed}{rank - 2}d")
        case _:
            return None


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


def _matrix(path: str, shape: Shape, *, has_bias: bool) -> _Guess:
    if not has_bias and _LIKE_EMBEDDING.search(path.rpartition(".")[2]):
        return _Guess("Embedding")
    square = "square: no shape check would notice a missing transpose" if shape[0] == shape[1] else ""
    return _Guess("Linear", square if has_bias else "no bias: an Embedding looks the same")


def _vector(path: str, shape: Shape, *, has_bias: bool) -> _Guess:
    if has_bias:
        return _Guess("LayerNorm", "a GroupNorm looks the same")
    if shape == (1,):
        return _Guess("PRelu")
    return _Guess("RmsNorm", "" if _LIKE_RMS.search(path) else "a LayerNorm without bias or a PRelu looks the same")
