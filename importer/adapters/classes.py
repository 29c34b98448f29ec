"""Which layer kind a class is, read off its name and, for classes we have never heard of, its attributes.

Only whole saved models name classes. Every layer kind lists its own; a recipe never repeats them, and where a template or a
`types` entry speaks, that decides. Not here: guesses from parameter names (`suggestions`), which never decide.

Sources: torch.nn.modules; class names found in dumps of transformers 5.24, torchvision 0.28, timm 1.0 (recipes.md B.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from importer.adapters.layer_kind import Adapted, Args, LayerKind, Problem, Shapes
from importer.adapters.table import LAYERS
from importer.arrays import Array

__all__ = ["RefusedLayer", "TypedLayer", "layer_of_class"]


@dataclass(frozen=True, slots=True)
class TypedLayer:
    """A layer kind with the arguments that are known.

    Attributes:
        kind: what it is.
        args: what is known of its arguments.
        by_attributes: whether an unknown class only has the attributes of such a layer. A graph convolution has those of
            a Linear, and its weight lies the other way round.
    """

    kind: LayerKind
    args: Args
    by_attributes: bool = False


_KINDS = {name: kind.name for kind in LAYERS.values() for name in kind.classes}
"""TransformerEncoder and TransformerDecoder of torch are left to their layers: each layer knows its own `norm_first`, and the
last norm then keeps its name as a LayerNorm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLayer(LayerKind):
    """A module that Burn cannot hold: every parameter is a fault that says why, and what to do instead."""

    why: str
    how: str

    def holds(self, child: str) -> bool:
        """Refuse everything inside, too."""
        del child
        return True

    def burn_params(self, args: Args) -> Shapes:
        """Return nothing: there is no such module."""
        del args
        return ()

    def to_burn(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Refuse every parameter."""
        del args
        return Adapted(faults=tuple(Problem(leaf, f"{self.name}: {self.why}", self.how) for leaf in params))

    def to_torch(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Refuse every parameter."""
        return self.to_burn(params, args)


_NO_MODULE = "Burn has no such layer"
_REFUSED = {
    "Bilinear": (_NO_MODULE, "Hold its weight in a Param of a module of your own and give it that type."),
    "AdaptiveLogSoftmaxWithLoss": (_NO_MODULE, "Give types to its head and tail Linears one by one."),
}
_ZERO_CENTRED = ("its weight is stored minus one", "Use a recipe with the step `map: '1 + x'` for it.")
_ZERO_CENTRED_FAMILIES = ("Gemma", "Qwen3Next")

_CONVOLUTION = {"in_channels", "out_channels", "kernel_size", "transposed", "output_padding"}


def layer_of_class(class_name: str, attributes: Mapping[str, object] | None = None) -> TypedLayer | None:
    """Return the layer that a module of this class is (a `RefusedLayer` if Burn has none), or None when not certain.

    Args:
        class_name: qualified as in the pickle; a bare name is taken for torch's own.
        attributes: the instance's plain attributes, if the file shows them. They settle options that the class
            leaves open, and tell what a user's subclass of a torch layer is.
    """
    known = attributes or {}
    refused = _refusal(class_name)
    if refused is not None:
        return TypedLayer(refused, {})
    module, _, name = class_name.rpartition(".")
    library = module.partition(".")[0]
    kind = _KINDS.get(f"torch.{name}" if _is_torch(module) else f"{library}.{name}" if library != "torch" else "")
    if kind is not None:
        return _with_options(kind, known)
    likeness = None if _is_torch(module) else _kind_by_attributes(known)
    return None if likeness is None else replace(_with_options(likeness, known), by_attributes=True)


def _is_torch(module: str) -> bool:
    return module in ("", "torch.nn") or module.startswith("torch.nn.modules.")


def _refusal(class_name: str) -> RefusedLayer | None:
    module, _, name = class_name.rpartition(".")
    reasons = _REFUSED.get(name) if _is_torch(module) else None
    if module.startswith("transformers.") and name.endswith("RMSNorm") and name.startswith(_ZERO_CENTRED_FAMILIES):
        reasons = _ZERO_CENTRED
    return None if reasons is None else RefusedLayer(name=name, why=reasons[0], how=reasons[1])


def _kind_by_attributes(attributes: Mapping[str, object]) -> str | None:
    """Return the kind of a subclass: the attributes torch's constructors set are its base's signature.

    Batch and instance norms have the same ones, and are not told apart.
    """
    if attributes.keys() >= _CONVOLUTION:
        kernel = attributes["kernel_size"]
        dims = len(kernel) if isinstance(kernel, tuple) else 0
        name = f"Conv{'Transpose' if attributes['transposed'] else ''}{dims}d"
        return name if name in LAYERS else None
    return next((one.name for one in LAYERS.values() if one.attributes and attributes.keys() >= one.attributes), None)


def _with_options(kind: str, attributes: Mapping[str, object]) -> TypedLayer:
    """Return the kind that the attributes make of it, with what they tell of its arguments."""
    if attributes.get("bidirectional") is True and f"Bi{kind}" in LAYERS:
        kind = f"Bi{kind}"
    if kind == "Mha" and {attributes.get("kdim"), attributes.get("vdim")} - {None, attributes.get("embed_dim")}:
        kind = "CrossAttention"
    # Releases before 1.9 have no such attribute and normalise last.
    norm_first = attributes.get("norm_first", False if attributes else None)
    args: Args = {}
    if kind in ("TransformerEncoderLayer", "TransformerDecoderLayer") and isinstance(norm_first, bool):
        args = {"norm_first": norm_first}
    return TypedLayer(LAYERS[kind], args)
