"""Multi-head attention, transformer layers and stacks, and SwiGlu.

Torch fuses the three input projections of an attention (`in_proj_weight` rows q, k, v) and numbers a layer's norms by
sub-layer; Burn has four Linears, and numbers norms by the order in which its post-norm forward uses them - so with
`norm_first` the same norm has another number on each side. All of them are [d] vectors and nothing would show a
mix-up: whether a file is `norm_first` has to be said. Tables: burn-spec 7.3; field orders read in burn-nn.

Not here: heads. Both sides keep head `i` in rows `i*d_head…`; other layouts (interleaved, rotary) are the recipe's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from importer.adapters.composite import Child, CompositeLayer, RenamedParams
from importer.adapters.layer_kind import Args, ArgType, Argument, flag, integer
from importer.adapters.plain import PLAIN_LAYERS
from importer.adapters.reparametrized import Part
from importer.arrays import split
from importer.errors import shown

__all__ = ["ATTENTION_LAYERS"]

_LINEAR = PLAIN_LAYERS["Linear"]
_NORM = PLAIN_LAYERS["LayerNorm"]
_QUERY_KEY_VALUE = ("query", "key", "value")
_TORCH_PROJECTIONS = {"q_proj_weight": "query.weight", "k_proj_weight": "key.weight", "v_proj_weight": "value.weight"}


def _linear(path: str, size_in: int, size_out: int, *, zero_bias: bool) -> Child:
    return Child(path, _LINEAR, {"in": size_in, "out": size_out, "bias": True}, zero_bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer(CompositeLayer):
    """Burn's MultiHeadAttention (all inputs of one width) and CrossAttention (keys and values from a context)."""

    cross: bool

    def holds(self, child: str) -> bool:
        """Return whether it is one of the four projections."""
        return child in {*_QUERY_KEY_VALUE, "output", "out_proj"}

    def children(self, args: Args) -> tuple[Child, ...]:
        """Return the four projections."""
        d = integer(args, "d")
        context = integer(args, "context") if self.cross else d
        queries = integer(args, "queries") or d
        keys = integer(args, "keys") or queries
        bare = not flag(args, "bias", default=True)
        return (
            _linear("query", d, queries, zero_bias=bare),
            _linear("key", context, keys, zero_bias=bare or not flag(args, "key_bias", default=True)),
            _linear("value", context, keys, zero_bias=bare),
            _linear("output", queries, d, zero_bias=bare),
        )

    def rename_to_burn(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Split the fused projections; refuse what Burn's module has no inputs for."""
        del args
        out = RenamedParams()
        for name, part in parts.items():
            if name in ("in_proj_weight", "in_proj_bias"):
                _split_projections(name, part, out)
            elif name in ("bias_k", "bias_v"):
                what = f"{shown(name)} appends a learned key and value (add_bias_kv), which Burn's {self.name} cannot"
                out.refuse(part.sources, what, "Train without add_bias_kv, or drop the module.")
            elif name.startswith("out_proj."):
                out.put(f"output.{name.removeprefix('out_proj.')}", part)
            else:
                out.put(_TORCH_PROJECTIONS.get(name, name), part)
        self._check_widths(out)
        return out

    def rename_to_torch(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Fuse the projections where torch does: always the biases, the weights when all inputs have one width."""
        del args
        out = RenamedParams()
        if self.cross:
            for name, source in _TORCH_PROJECTIONS.items():
                out.join(name, [source], parts)
        else:
            out.join("in_proj_weight", [f"{name}.weight" for name in _QUERY_KEY_VALUE], parts)
        out.join("in_proj_bias", [f"{name}.bias" for name in _QUERY_KEY_VALUE], parts)
        for leaf in ("weight", "bias"):
            out.join(f"out_proj.{leaf}", [f"output.{leaf}"], parts)
        return out

    def _check_widths(self, out: RenamedParams) -> None:
        query = out.parts.get("query.weight")
        if self.cross or query is None:
            return
        for name in ("key.weight", "value.weight"):
            part = out.parts.get(name)
            if part is not None and part.array.shape[1:] != query.array.shape[1:]:
                del out.parts[name]
                what = f"{shown(part.sources[0])} takes inputs of another width than the query (kdim, vdim)"
                out.refuse(part.sources, what, "Burn's module for that is CrossAttention: give it as the type.")


def _split_projections(name: str, part: Part, out: RenamedParams) -> None:
    """Put the rows of a fused projection under query, key and value."""
    rows, left = divmod((part.array.shape or (1,))[0], len(_QUERY_KEY_VALUE))
    if left:
        what = f"{shown(name)} has shape {list(part.array.shape)}, not three equal blocks of rows"
        out.refuse(part.sources, what, "Give the module another type.")
        return
    leaf = name.removeprefix("in_proj_")
    for target, array in zip(_QUERY_KEY_VALUE, split(part.array, 0, (rows,) * 3), strict=True):
        out.put(f"{target}.{leaf}", Part(array, part.sources, part.note))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerLayer(CompositeLayer):
    """One encoder or decoder layer.

    Attributes:
        attentions: Burn's field → torch's name, in Burn's field order.
        pre_norms: Burn's number of each of torch's norms, in torch's order, when `norm_first`.
    """

    attentions: Mapping[str, str]
    pre_norms: tuple[int, ...]
    feed_forward: Mapping[str, str] = field(
        default_factory=lambda: {"pwff.linear_inner": "linear1", "pwff.linear_outer": "linear2"}
    )

    def holds(self, child: str) -> bool:
        """Return whether it is a part by torch's name or Burn's."""
        names = self._children_names({})
        return child in {*names.values(), *(path.partition(".")[0] for path in names)}

    def children(self, args: Args) -> tuple[Child, ...]:
        """Return attentions, feed-forward and norms in Burn's field order."""
        d, ff = integer(args, "d"), integer(args, "ff")
        bare = not flag(args, "bias", default=True)
        mha = ATTENTION_LAYERS["Mha"]
        return (
            *(Child(path, mha, {"d": d, "bias": not bare}) for path in self.attentions),
            _linear("pwff.linear_inner", d, ff, zero_bias=bare),
            _linear("pwff.linear_outer", ff, d, zero_bias=bare),
            *(Child(f"norm_{n + 1}", _NORM, {"d": d, "bias": True}, bare) for n in range(len(self.pre_norms))),
        )

    def rename_to_burn(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Rename torch's children to Burn's fields; leaves already named so pass."""
        out = RenamedParams()
        names = {torch: burn for burn, torch in self._children_names(args).items()}
        for name, part in parts.items():
            head, _, leaf = name.partition(".")
            if head in self._torch_norms() and not isinstance(args.get("norm_first"), bool):
                out.refuse(part.sources, *self._ask_norm_first())
            else:
                out.put(f"{names[head]}.{leaf}" if head in names else name, part)
        return out

    def rename_to_torch(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Rename Burn's fields to torch's children."""
        out = RenamedParams()
        names = self._children_names(args)
        for name, part in parts.items():
            child = next(path for path in names if name.startswith(f"{path}."))
            if child.startswith("norm_") and not isinstance(args.get("norm_first"), bool):
                out.refuse(part.sources, *self._ask_norm_first())
            else:
                out.put(names[child] + name.removeprefix(child), part)
        return out

    def _children_names(self, args: Args) -> dict[str, str]:
        """Return Burn's path → torch's name of every child."""
        numbers = self.pre_norms if flag(args, "norm_first") else range(1, len(self.pre_norms) + 1)
        norms = {f"norm_{burn}": torch for burn, torch in zip(numbers, self._torch_norms(), strict=True)}
        return {**self.attentions, **self.feed_forward, **norms}

    def _torch_norms(self) -> tuple[str, ...]:
        return tuple(f"norm{n + 1}" for n in range(len(self.pre_norms)))

    def _ask_norm_first(self) -> tuple[str, str]:
        return (
            "whether this layer normalises first (norm_first) cannot be seen in a file, and decides which norm is which",
            f"Write {self.name}(..., norm_first=True) or norm_first=False, as the model was built.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerStack(CompositeLayer):
    """`layers.N` of one kind; torch's optional last norm has no field in Burn."""

    layer: TransformerLayer

    def holds(self, child: str) -> bool:
        """Return whether it is the list of layers, or torch's last norm."""
        return child in {"layers", "norm"}

    def structure(self, names: Mapping[str, object], args: Args) -> Args:
        """Count the layers by the names where the recipe leaves their number open."""
        if "n" in args:
            return args
        numbers = {path[1] for path in (name.split(".") for name in names) if path[0] == "layers" and len(path) > 1}
        return {**args, "n": len(numbers)}

    def children(self, args: Args) -> tuple[Child, ...]:
        """Return the layers."""
        inner = {name: value for name, value in args.items() if name != "n"}
        return tuple(Child(f"layers.{n}", self.layer, inner) for n in range(integer(args, "n")))

    def rename_to_burn(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Pass the layers; refuse the last norm."""
        del args
        out = RenamedParams()
        for name, part in parts.items():
            if name.startswith("norm."):
                what = f"{shown(name)}: Burn's {self.name} has no norm after its last layer"
                how = "Add a LayerNorm to your model and rename this one to it (rename: ['\\.norm\\.', '_norm.'])."
                out.refuse(part.sources, what, how)
            else:
                out.put(name, part)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiGluLayer(CompositeLayer):
    """Burn's SwiGlu: `silu(linear_inner(x)) * linear_outer(x)`; torch has no such module, so names are Burn's."""

    def holds(self, child: str) -> bool:
        """Return whether it is one of the two projections."""
        return child in {"linear_inner", "linear_outer"}

    def children(self, args: Args) -> tuple[Child, ...]:
        """Return the gate and the value projection."""
        sizes: Args = {"in": integer(args, "in"), "out": integer(args, "out"), "bias": flag(args, "bias")}
        return tuple(Child(path, _LINEAR, sizes) for path in ("linear_inner", "linear_outer"))


def _flag(name: str, *, default: bool | None) -> Argument:
    return Argument(name, ArgType.FLAG, default=default, required=False)


_LAYER_SIGNATURE = (Argument("d"), Argument("ff"), _flag("norm_first", default=None), _flag("bias", default=True))
_STACK_SIGNATURE = (*_LAYER_SIGNATURE[:2], Argument("n", ArgType.COUNT), *_LAYER_SIGNATURE[2:])
_ENCODER_LAYER = TransformerLayer(
    name="TransformerEncoderLayer",
    about="self_attn → mha, linear1/2 → pwff, norms renumbered when norm_first",
    signature=_LAYER_SIGNATURE,
    attentions={"mha": "self_attn"},
    pre_norms=(2, 1),
    classes=("torch.TransformerEncoderLayer",),
)
_DECODER_LAYER = TransformerLayer(
    name="TransformerDecoderLayer",
    about="multihead_attn → cross_attn, linear1/2 → pwff, norms renumbered when norm_first",
    signature=_LAYER_SIGNATURE,
    attentions={"cross_attn": "multihead_attn", "self_attn": "self_attn"},
    pre_norms=(3, 1, 2),
    classes=("torch.TransformerDecoderLayer",),
)

ATTENTION_LAYERS: Mapping[str, CompositeLayer] = {
    layer.name: layer
    for layer in (
        AttentionLayer(
            name="Mha",
            about="in_proj split into query, key, value; out_proj → output. Burn always has biases: zeros where not",
            signature=(Argument("d"), _flag("bias", default=True), _flag("key_bias", default=True)),
            cross=False,
            classes=("torch.MultiheadAttention",),
        ),
        AttentionLayer(
            name="CrossAttention",
            about="as Mha, with keys and values from inputs of another width (torch's kdim = vdim)",
            signature=(
                Argument("d"),
                Argument("context"),
                Argument("queries", default=None, required=False),
                Argument("keys", default=None, required=False),
                _flag("bias", default=True),
            ),
            cross=True,
        ),
        _ENCODER_LAYER,
        _DECODER_LAYER,
        TransformerStack(
            name="TransformerEncoder",
            about="layers.N; a norm after the last layer has no home",
            signature=_STACK_SIGNATURE,
            layer=_ENCODER_LAYER,
        ),
        TransformerStack(
            name="TransformerDecoder",
            about="layers.N; a norm after the last layer has no home",
            signature=_STACK_SIGNATURE,
            layer=_DECODER_LAYER,
        ),
        SwiGluLayer(
            name="SwiGlu",
            about="linear_inner (gate) and linear_outer (value), both transposed",
            signature=(Argument("in"), Argument("out"), _flag("bias", default=False)),
        ),
    )
}
"""Attention and what is built of it, by name."""
