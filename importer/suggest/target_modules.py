"""What a file saved from a fresh Burn model says about its modules: paths, and the layers each of them may be.

A skeleton names parameters, not types. Field names and shapes settle most types; where several layers hold the same
parameters all of them are kept, the likeliest first. Not here: writing them down (`importer.suggest.template_text`).

Field names and shapes: burn-nn, as `importer.adapters` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from importer.adapters import LAYERS, Args, ArgValue
from importer.errors import UsageError

__all__ = ["LIKE_EMBEDDING", "LayerCandidate", "Shape", "TargetModule", "read_target_modules", "with_attention"]

Shape = tuple[int, ...]

LIKE_EMBEDDING = re.compile(r"emb|wte|wpe|tok|pos(ition)?(_|$)|shared|vocab|codebook", re.IGNORECASE)
_LIKE_TRANSPOSED = re.compile(r"transpose|deconv|up(sampl|conv)|_up$|^up", re.IGNORECASE)
_GATE = re.compile(
    r"^(?P<path>.+?)\.(?P<both>(?:forward|reverse)\.)?(?P<gate>(?:\w+_)?gate)\.(?:input|hidden)_transform\.(?:weight|bias)$"
)
_RECURRENT = {4: "Lstm", 3: "Gru", 1: "Rnn"}
_NORMS: Mapping[frozenset[str], str] = {
    frozenset({"gamma", "beta", "running_mean", "running_var"}): "BatchNorm",
    frozenset({"gamma", "beta"}): "LayerNorm",
    frozenset({"gamma"}): "RmsNorm",
    frozenset({"alpha"}): "PRelu",
}
_PROJECTIONS = ("query", "key", "value", "output")
_MATRIX = 2
_KERNELS = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class LayerCandidate:
    """One layer a module may be: a name of `importer.adapters.LAYERS` and its arguments, defaults filled in."""

    kind: str
    args: Args

    def text(self) -> str:
        """Return the call as a template writes it, without arguments at their default."""
        signature = LAYERS[self.kind].signature
        given = [(one, self.args.get(one.name)) for one in signature]
        if self.kind == "Param":
            return f"Param({', '.join(map(str, _sizes(self.args.get('dims'))))})"
        shown = [_value(value) for one, value in given if one.required]
        shown += [f"{one.name}={_value(value)}" for one, value in given if not one.required and value != one.default]
        return f"{self.kind}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class TargetModule:
    """A module of the Burn model, or one bare parameter.

    Attributes:
        path: dotted path; of a bare parameter its whole name.
        params: leaf name → shape as Burn holds it; "" for a bare parameter.
        readings: the layers that have exactly these parameters, the likeliest first.
    """

    path: str
    params: Mapping[str, Shape]
    candidates: tuple[LayerCandidate, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """Names of the layers it may be."""
        return frozenset(candidate.kind for candidate in self.candidates)

    def names(self) -> tuple[str, ...]:
        """Return the full names of its parameters."""
        return tuple(name for name, _ in self.shapes())

    def shapes(self) -> tuple[tuple[str, Shape], ...]:
        """Return the full names of its parameters with their shapes."""
        return tuple((f"{self.path}.{leaf}" if leaf else self.path, shape) for leaf, shape in self.params.items())


def read_target_modules(shapes: Mapping[str, Shape]) -> tuple[TargetModule, ...]:
    """Return the modules of a skeleton in its order.

    Args:
        shapes: full parameter name → shape as Burn holds it.
    """
    modules: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        match = _GATE.match(name)
        path = match["path"] if match is not None else name.rpartition(".")[0]
        modules.setdefault(path, {})[name[len(path) :].removeprefix(".")] = shape
    units: list[TargetModule] = []
    for path, leaves in _with_stacks(modules).items():
        candidates = _exact(_candidates(path, leaves), leaves) if path else ()
        if candidates:
            units.append(TargetModule(path, leaves, candidates))
        else:
            units += [_bare(f"{path}.{leaf}" if path else leaf, shape) for leaf, shape in leaves.items()]
    return tuple(units)


def with_attention(units: Sequence[TargetModule]) -> tuple[TargetModule, ...]:
    """Join four projections under one parent into the attention they make up; for files that hold them fused."""
    parents: dict[str, dict[str, TargetModule]] = {}
    for unit in units:
        parent, _, child = unit.path.rpartition(".")
        if child in _PROJECTIONS and "Linear" in unit.kinds:
            parents.setdefault(parent, {})[child] = unit
    joined: dict[str, TargetModule] = {}
    for parent, children in parents.items():
        if parent and set(children) == set(_PROJECTIONS):
            leaves = {f"{c}.{leaf}": shape for c in _PROJECTIONS for leaf, shape in children[c].params.items()}
            candidates = _exact(_attention({child: unit.params["weight"] for child, unit in children.items()}), leaves)
            if candidates:
                joined[parent] = TargetModule(parent, leaves, candidates)
    kept: dict[str, TargetModule] = {}
    for unit in units:
        parent = unit.path.rpartition(".")[0]
        replaced = parent in joined and unit.path.rpartition(".")[2] in _PROJECTIONS
        kept.setdefault(parent if replaced else unit.path, joined[parent] if replaced else unit)
    return tuple(kept.values())


def _attention(weights: Mapping[str, Shape]) -> Iterator[LayerCandidate]:
    """Yield the attentions with these projections."""
    width, queries = weights["query"]
    context, keys = weights["key"]
    yield _reading("Mha", d=width)
    yield _reading("CrossAttention", d=width, context=context, queries=queries, keys=keys)


def _with_stacks(modules: Mapping[str, dict[str, Shape]]) -> dict[str, dict[str, Shape]]:
    """Join `lstm.0`, `lstm.1`… into one recurrent module of several layers, as torch holds them."""
    gated = {path for path, leaves in modules.items() if any("_transform." in leaf for leaf in leaves)}
    out: dict[str, dict[str, Shape]] = {}
    for path, leaves in modules.items():
        stack, _, number = path.rpartition(".")
        if path in gated and stack and number.isdecimal() and f"{stack}.1" in gated and f"{stack}.0" in gated:
            out.setdefault(stack, {}).update({f"{number}.{leaf}": shape for leaf, shape in leaves.items()})
        else:
            out[path] = leaves
    return out


def _candidates(path: str, leaves: Mapping[str, Shape]) -> Iterator[LayerCandidate]:
    """Yield the layers that field names and ranks allow, the likeliest first."""
    norm = _NORMS.get(frozenset(leaves))
    if norm is not None:
        size = next(iter(leaves.values()))
        if len(size) == 1:
            yield _reading(norm, **{LAYERS[norm].signature[0].name: size[0]})
        return
    if any("_transform." in leaf for leaf in leaves):
        yield from _recurrent(leaves)
    elif "weight" in leaves and set(leaves) <= {"weight", "bias"} and len(leaves.get("bias", (0,))) == 1:
        yield from _weighted(path, leaves["weight"], leaves["bias"][0] if "bias" in leaves else None)


def _weighted(path: str, weight: Shape, bias: int | None) -> Iterator[LayerCandidate]:
    if len(weight) == _MATRIX:
        yield from _matrix(path, weight, bias)
    elif len(weight) in _KERNELS:
        yield from _kernel(path, weight, bias)


def _matrix(path: str, weight: Shape, bias: int | None) -> Iterator[LayerCandidate]:
    first, second = weight
    if bias is None:
        linear = _reading("Linear", **{"in": first}, out=second, bias=False)
        embedding = _reading("Embedding", n=first, d=second)
        yield from (embedding, linear) if LIKE_EMBEDDING.search(path.rpartition(".")[2]) else (linear, embedding)
        return
    if bias == second:
        yield _reading("Linear", **{"in": first}, out=second)
        yield _reading("Conv1D", **{"in": first}, out=second)
    elif bias == first:
        yield _reading("Linear", **{"in": second}, out=first, layout="col")


def _kernel(path: str, weight: Shape, bias: int | None) -> Iterator[LayerCandidate]:
    dims = len(weight) - _MATRIX
    first, second, *rest = weight
    kernel: ArgValue = rest[0] if len(set(rest)) == 1 else tuple(rest)
    groups = first if second == 1 else 1
    has_bias = bias is not None
    plain = _reading(
        f"Conv{dims}d", **{"in": second * groups}, out=first, k=kernel, groups=groups, bias=has_bias
    )  # fmt: skip
    turned = _reading(f"ConvTranspose{dims}d", **{"in": first}, out=second, k=kernel, bias=has_bias)
    likely = [plain, turned] if not _LIKE_TRANSPOSED.search(path.rpartition(".")[2]) else [turned, plain]
    fitting = {plain.kind: bias in (None, first), turned.kind: bias in (None, second)}
    yield from (candidate for candidate in likely if fitting[candidate.kind])


def _recurrent(leaves: Mapping[str, Shape]) -> Iterator[LayerCandidate]:
    """Yield the recurrent layer with these gates, directions and layers."""
    gates = {segment for leaf in leaves for segment in leaf.split(".") if segment.endswith("gate")}
    both = any("reverse" in leaf.split(".")[:2] for leaf in leaves)
    layers = {leaf.split(".")[0] for leaf in leaves if leaf.split(".")[0].isdecimal()} or {"0"}
    kind = _RECURRENT.get(len(gates))
    first = next((shape for leaf, shape in leaves.items() if leaf.endswith("input_transform.weight")), ())
    if kind is not None and len(first) == _MATRIX:
        has_bias = any(leaf.endswith(".bias") for leaf in leaves)
        named = {"in": first[0], "hidden": first[1], "layers": len(layers), "bias": has_bias}
        yield _reading("Bi" * both + kind, **named)


def _reading(kind: str, **named: ArgValue) -> LayerCandidate:
    return LayerCandidate(kind, LAYERS[kind].bind((), named))


def _bare(name: str, shape: Shape) -> TargetModule:
    return TargetModule(name, {"": shape}, (LayerCandidate("Param", {"dims": shape}),))


def _exact(
    candidates: Iterator[LayerCandidate] | Sequence[LayerCandidate], leaves: Mapping[str, Shape]
) -> tuple[LayerCandidate, ...]:
    """Keep the readings whose parameters are exactly these."""
    return tuple(candidate for candidate in candidates if _params(candidate) == dict(leaves))


def _params(candidate: LayerCandidate) -> dict[str, Shape]:
    try:
        return dict(LAYERS[candidate.kind].burn_params(candidate.args))
    except UsageError:
        return {}


def _sizes(value: ArgValue) -> Shape:
    return value if isinstance(value, tuple) else ()


def _value(value: ArgValue) -> str:
    return str(list(value)) if isinstance(value, tuple) else repr(value)
