"""Layers whose parameters correspond one to one: renamed, transposed, dropped or synthesised, never split.

Not here: layers made of further layers (`composite`), and the fusing of weight and spectral norm (`reparametrized`).

Layouts and shapes: burn-spec part 7.1 (torch shapes run with torch 2.13; Burn's fields read in burn-nn).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from importer.adapters.layer_kind import (
    Adapted,
    AdaptedParam,
    Args,
    ArgType,
    Argument,
    Dropped,
    LayerKind,
    Problem,
    Shapes,
    flag,
    integer,
    integers,
    problems_of,
)
from importer.adapters.reparametrized import Part, fused
from importer.arrays import Array, full, transpose
from importer.errors import UsageError, shown

__all__ = ["PLAIN_LAYERS", "Leaf", "PlainLayer"]

Shape = tuple[int, ...]

_NO_COUNTER = "only counts training batches; Burn's BatchNorm has no such parameter"
_NO_STATISTICS = "Burn's InstanceNorm keeps no running statistics and always normalises each instance by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One parameter of a plain layer.

    Attributes:
        burn: name of Burn's field.
        torch: spellings on the torch side, torch's own first.
        rank: number of dimensions both sides have; None for any.
        shape: Burn's shape for given arguments.
        optional: name of the flag that says whether it exists, or "".
        swapped: whether the two sides hold each other's transposition.
    """

    burn: str
    torch: tuple[str, ...]
    rank: int | None
    shape: Callable[[Args], Shape]
    optional: str = ""
    swapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLayer(LayerKind):
    """A layer described by its leaves alone.

    Attributes:
        leaves: in Burn's field order.
        struct: Burn struct that owns them, where it is not the kind's name; "" for a bare parameter.
        drops: torch leaves without a home in Burn → why dropping them loses nothing.
        out_axis: dimension of torch's weight that counts outputs, which spectral norm flattens around.
        wrong_rank: what to say, beyond the numbers, when the weight has another rank.
        complete: synthesises leaves that Burn requires and the file lacks.
    """

    leaves: tuple[Leaf, ...]
    struct: str | None = None
    drops: Mapping[str, str] = field(default_factory=dict)
    out_axis: int = 0
    wrong_rank: str = ""
    complete: Callable[[Mapping[str, Array], Args], tuple[tuple[AdaptedParam, ...], tuple[Problem, ...]]] | None = None

    def burn_params(self, args: Args) -> Shapes:
        """Return (leaf, shape) in field order."""
        return tuple(
            (leaf.burn, leaf.shape(args))
            for leaf in self.leaves
            if not leaf.optional or flag(args, leaf.optional, default=True)
        )

    def to_burn(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Rename and transpose; synthesise what Burn requires."""
        parts, faults = fused(params, self.out_axis)
        taken: dict[str, AdaptedParam] = {}
        dropped: list[Dropped] = []
        for name, part in parts.items():
            leaf = next((leaf for leaf in self.leaves if name in (*leaf.torch, leaf.burn)), None)
            if leaf is None and name in self.drops:
                dropped.append(Dropped(name, self.drops[name]))
            elif leaf is None:
                faults += self._unknown(name, part.sources)
            elif leaf.burn in taken:
                faults += self._twice(name, part.sources, taken[leaf.burn].sources)
            elif leaf.rank is not None and len(part.array.shape) != leaf.rank:
                faults += self._rank_faults(name, part, leaf.rank)
            else:
                array = self._moved(leaf, part.array, args)
                taken[leaf.burn] = AdaptedParam(leaf.burn, array, self._struct, part.sources, part.note)
        if self.complete is not None:
            made, gaps = self.complete({name: piece.array for name, piece in taken.items()}, args)
            taken.update({piece.name: piece for piece in made})
            faults.extend(gaps)
        ordered = tuple(taken[leaf.burn] for leaf in self.leaves if leaf.burn in taken)
        return Adapted(ordered, tuple(dropped), tuple(faults))

    def to_torch(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Rename and transpose back."""
        pieces: list[AdaptedParam] = []
        faults: list[Problem] = []
        for name, array in params.items():
            leaf = next((leaf for leaf in self.leaves if name == leaf.burn), None)
            if leaf is None:
                faults += self._unknown(name, (name,))
            elif leaf.rank is not None and len(array.shape) != leaf.rank:
                faults += self._rank_faults(name, Part(array, (name,)), leaf.rank)
            else:
                pieces.append(AdaptedParam(leaf.torch[0], self._moved(leaf, array, args), self._struct, (name,)))
        return Adapted(tuple(pieces), (), tuple(faults))

    @property
    def _struct(self) -> str:
        return self.name if self.struct is None else self.struct

    def _moved(self, leaf: Leaf, array: Array, args: Args) -> Array:
        return transpose(array) if leaf.swapped and args.get("layout") != "col" else array

    def _unknown(self, name: str, sources: tuple[str, ...]) -> tuple[Problem, ...]:
        known = ", ".join(spelling for leaf in self.leaves for spelling in leaf.torch[:1])
        what = f"{self.name} has no parameter {shown(name)} (it has {known})"
        return problems_of(sources, what, "Drop it, rename it, or give the module another type.")

    def _twice(self, name: str, sources: tuple[str, ...], others: tuple[str, ...]) -> tuple[Problem, ...]:
        what = f"{shown(name)} and {shown(others[0])} are the same parameter"
        return problems_of(sources, what, "Drop one of them in the recipe.")

    def _rank_faults(self, name: str, part: Part, rank: int) -> tuple[Problem, ...]:
        reason = f": {self.wrong_rank}" if self.wrong_rank else ""
        needed = f"{self.name} needs {rank} dimension{'s'[: rank != 1]}{reason}"
        what = f"{shown(name)} has shape {list(part.array.shape)}, {needed}"
        return problems_of(part.sources, what, "Give the module another type, or reshape the tensor in the recipe.")


def _batch_norm_complete(
    parts: Mapping[str, Array], args: Args
) -> tuple[tuple[AdaptedParam, ...], tuple[Problem, ...]]:
    """Fill in what torch leaves out: gamma and beta with affine=False, statistics only when the recipe says so."""
    made: list[AdaptedParam] = []
    statistics = "running_mean" in parts or "running_var" in parts
    if statistics and "gamma" not in parts and "beta" not in parts:
        like = next(array for name, array in parts.items() if name.startswith("running_"))
        note = "no scale and shift in the file (affine=False): {} synthesised"
        made.append(AdaptedParam("gamma", full(1, like.dtype, like.shape), "BatchNorm", (), note.format("ones")))
        made.append(AdaptedParam("beta", full(0, like.dtype, like.shape), "BatchNorm", (), note.format("zeros")))
    if statistics or "gamma" not in parts:
        return tuple(made), ()
    if flag(args, "running", default=True):
        return (), (
            Problem(
                "running_mean",
                "this BatchNorm keeps no running statistics: PyTorch normalises by the batch at hand, "
                "Burn at inference by stored ones",
                "If mean 0 and variance 1 are right for your use, write BatchNorm(..., running=False).",
            ),
        )
    like = parts["gamma"]
    note = "no running statistics in the file (running=False): {} synthesised"
    made.append(AdaptedParam("running_mean", full(0, like.dtype, like.shape), "BatchNorm", (), note.format("zeros")))
    made.append(AdaptedParam("running_var", full(1, like.dtype, like.shape), "BatchNorm", (), note.format("ones")))
    return tuple(made), ()


def _sizes(*names: str) -> Callable[[Args], Shape]:
    """Return a function from arguments to the shape made of the named sizes."""
    return lambda args: tuple(integer(args, name) for name in names)


def _flag(name: str, *, default: bool = True) -> Argument:
    return Argument(name, ArgType.FLAG, default=default, required=False)


def _bias(*size: str) -> Leaf:
    return Leaf(burn="bias", torch=("bias",), rank=1, shape=_sizes(*size), optional="bias")


def _scale_and_shift(size: str, *, scale: str = "", shift: str = "") -> tuple[Leaf, Leaf]:
    """Return gamma and beta, each with the flag that says whether it exists."""
    return (
        Leaf(burn="gamma", torch=("weight", "gamma"), rank=1, shape=_sizes(size), optional=scale),
        Leaf(burn="beta", torch=("bias", "beta"), rank=1, shape=_sizes(size), optional=shift),
    )


def _statistic(name: str) -> Leaf:
    return Leaf(burn=name, torch=(name,), rank=1, shape=_sizes("c"))


def _linear(name: str, *, struct: str | None = None, swapped: bool, about: str, classes: tuple[str, ...]) -> PlainLayer:
    layout = (Argument("layout", ArgType.LAYOUT, default="row", required=False),) if swapped else ()
    return PlainLayer(
        name=name,
        struct=struct,
        about=about,
        signature=(Argument("in"), Argument("out"), _flag("bias"), *layout),
        leaves=(
            Leaf(burn="weight", torch=("weight",), rank=2, shape=_linear_shape, swapped=swapped),
            _bias("out"),
        ),
        classes=classes,
        attributes=frozenset({"in_features", "out_features"} if swapped else ()),
        halves=True,
    )


def _linear_shape(args: Args) -> Shape:
    """Burn saves a Linear as [in, out], and as [out, in] when it was built with `LinearLayout::Col`."""
    shape = (integer(args, "in"), integer(args, "out"))
    return shape[::-1] if args.get("layout") == "col" else shape


def _convolution(dims: int, *, transposed: bool = False, groups: str = "groups", struct: str = "") -> PlainLayer:
    first, second = ("in", "out") if transposed else ("out", "in")

    def weight_shape(args: Args) -> Shape:
        count = integer(args, groups) or 1
        if integer(args, second) % count:
            raise UsageError(
                f"{second} {integer(args, second)} is no multiple of {groups} {count}", how="Correct the sizes."
            )
        return (integer(args, first), integer(args, second) // count, *integers(args, "k", dims))

    layout = f"[{first}, {second}/{groups}, k...]"
    return PlainLayer(
        name=struct or f"Conv{'Transpose' * transposed}{dims}d",
        about=f"weight {layout}, bias [out]: the same on both sides",
        signature=(
            Argument("in"),
            Argument("out"),
            Argument("k", ArgType.KERNEL),
            Argument(groups, default=1, required=False),
            _flag("bias"),
        ),
        leaves=(Leaf(burn="weight", torch=("weight",), rank=2 + dims, shape=weight_shape), _bias("out")),
        out_axis=1 if transposed else 0,
        classes=("torchvision.DeformConv2d",) if struct else (f"torch.Conv{'Transpose' * transposed}{dims}d",),
        halves=True,
    )


def _dims(args: Args) -> Shape:
    dims = args.get("dims")
    return dims if isinstance(dims, tuple) else ()


_RMS_NORM_FAMILIES = (
    *("DeepseekV3", "GptOss", "Llama", "Mamba", "Mistral", "Mixtral", "ModernBert", "Olmo2", "Phi3"),
    *("Qwen2", "Qwen2Moe", "Qwen3", "Qwen3Moe"),
)
"""Families of transformers whose norm multiplies by its weight as it is stored; others store it minus one (`classes`)."""

_LAYERS = (
    _linear(
        "Linear",
        swapped=True,
        about="weight [out, in] in torch, [in, out] in Burn; bias [out]",
        classes=(
            *("torch.Linear", "torch.NonDynamicallyQuantizableLinear", "torch._LinearWithBias", "timm.Linear"),
            *("transformers.FalconLinear", "transformers.MixtralTopKRouter", "transformers.Qwen3MoeTopKRouter"),
        ),
    ),
    _linear(
        "Conv1D",
        struct="Linear",
        swapped=False,
        about="a Linear that the file stores as [in, out] already (Hugging Face's Conv1D); becomes Burn's Linear",
        classes=("transformers.Conv1D",),
    ),
    *(_convolution(dims) for dims in (1, 2, 3)),
    *(_convolution(dims, transposed=True) for dims in (1, 2, 3)),
    _convolution(2, groups="weight_groups", struct="DeformConv2d"),
    PlainLayer(
        name="Embedding",
        about="weight [n, d]: the same on both sides, never transposed",
        signature=(Argument("n"), Argument("d")),
        leaves=(Leaf(burn="weight", torch=("weight",), rank=2, shape=_sizes("n", "d")),),
        classes=(
            *("torch.Embedding", "torch.EmbeddingBag"),
            *(f"transformers.{name}LearnedPositionalEmbedding" for name in ("Bart", "OPT")),
            *("transformers.BartScaledWordEmbedding", "transformers.WhisperPositionalEmbedding"),
            *(f"transformers.Gemma{n}TextScaledWordEmbedding" for n in (2, 3)),
        ),
        attributes=frozenset({"num_embeddings", "embedding_dim"}),
        halves=True,
    ),
    PlainLayer(
        name="BatchNorm",
        about="weight, bias → gamma, beta; running statistics kept; the batch counter dropped",
        signature=(Argument("c"), _flag("running")),
        leaves=(*_scale_and_shift("c"), _statistic("running_mean"), _statistic("running_var")),
        drops={"num_batches_tracked": _NO_COUNTER},
        complete=_batch_norm_complete,
        classes=(
            *(f"torch.BatchNorm{n}d" for n in (1, 2, 3)),
            *("torch.SyncBatchNorm", "transformers.DetrFrozenBatchNorm2d"),
            *("torchvision.FrozenBatchNorm2d", "timm.BatchNormAct2d"),
        ),
    ),
    PlainLayer(
        name="LayerNorm",
        about="weight, bias → gamma, beta [d]",
        signature=(Argument("d"), _flag("bias")),
        leaves=_scale_and_shift("d", shift="bias"),
        wrong_rank="Burn's LayerNorm normalises the last dimension only",
        classes=(
            *("torch.LayerNorm", "torchvision.LayerNorm2d", "timm.LayerNorm2d"),
            *(f"transformers.{name}" for name in ("ConvNextLayerNorm", "LayerNorm2d", "SamLayerNorm")),
        ),
        attributes=frozenset({"normalized_shape", "eps", "elementwise_affine"}),
        halves=True,
    ),
    PlainLayer(
        name="GroupNorm",
        about="weight, bias → gamma, beta [c]",
        signature=(Argument("groups"), Argument("c"), _flag("affine")),
        classes=("torch.GroupNorm",),
        attributes=frozenset({"num_groups", "num_channels"}),
        halves=True,
        leaves=_scale_and_shift("c", scale="affine", shift="affine"),
    ),
    PlainLayer(
        name="InstanceNorm",
        about="weight, bias → gamma, beta [c]; running statistics dropped",
        signature=(Argument("c"), _flag("affine")),
        classes=tuple(f"torch.InstanceNorm{n}d" for n in (1, 2, 3)),
        halves=True,
        leaves=_scale_and_shift("c", scale="affine", shift="affine"),
        drops={
            "running_mean": _NO_STATISTICS,
            "running_var": _NO_STATISTICS,
            "num_batches_tracked": _NO_STATISTICS,
        },
    ),
    PlainLayer(
        name="RmsNorm",
        about="weight → gamma [d]",
        signature=(Argument("d"),),
        leaves=(_scale_and_shift("d")[0],),
        wrong_rank="Burn's RmsNorm normalises the last dimension only",
        classes=(
            *("torch.RMSNorm", "timm.RmsNorm", "transformers.T5LayerNorm"),
            *(f"transformers.{family}RMSNorm" for family in _RMS_NORM_FAMILIES),
        ),
        halves=True,
    ),
    PlainLayer(
        name="PRelu",
        about="weight → alpha [n]",
        signature=(Argument("n", default=1, required=False),),
        leaves=(Leaf(burn="alpha", torch=("weight",), rank=1, shape=_sizes("n")),),
        classes=("torch.PReLU",),
        attributes=frozenset({"num_parameters"}),
        halves=True,
    ),
    PlainLayer(
        name="Param",
        struct="",
        about="a bare parameter of these dimensions, copied as it is; the path is the parameter's own name",
        signature=(Argument("dims", ArgType.SIZES),),
        leaves=(Leaf(burn="", torch=("",), rank=None, shape=_dims),),
    ),
)

PLAIN_LAYERS: Mapping[str, PlainLayer] = {layer.name: layer for layer in _LAYERS}
"""Every plain layer by name."""
