"""LSTM, GRU and plain RNN: torch's stacked gates taken apart into Burn's gate controllers, and joined again.

Torch stacks the gates of a layer in dimension 0 (LSTM i, f, g, o; GRU r, z, n) and suffixes names by layer and
direction (`weight_ih_l1_reverse`; a cell has no suffix). Burn has one module per layer and direction, one
`GateController { input_transform, hidden_transform }` per gate. Orders and layouts: burn-spec 7.2, verified there by
running torch against Burn's formula.

Paths below the module: one layer, one direction: `input_gate…`; two directions: `forward.input_gate…` and
`reverse.…` (Burn's BiLstm); several layers, which Burn leaves to the user's `Vec`: `0.…`, `1.…`. A template says which;
an entry of `types` need not, the parameters' names tell it.

Not here: settings that are no parameters. A model with `nonlinearity='relu'` needs Burn's `hidden_activation`, and a
GRU needs `reset_after` left at true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from importer.adapters.composite import Child, CompositeLayer, RenamedParams
from importer.adapters.layer_kind import Args, ArgType, Argument, flag, integer
from importer.adapters.plain import PLAIN_LAYERS
from importer.adapters.reparametrized import Part
from importer.arrays import split
from importer.errors import shown

__all__ = ["RECURRENT_LAYERS", "RecurrentLayer"]

_TORCH_NAME = re.compile(r"^(?P<leaf>weight|bias)_(?P<half>ih|hh)(?:_l(?P<layer>[0-9]{1,4})(?P<reverse>_reverse)?)?$")
_PROJECTION = re.compile(r"^weight_hr(_l[0-9]+(_reverse)?)?$")
_HALVES = {"ih": "input_transform", "hh": "hidden_transform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentLayer(CompositeLayer):
    """A recurrent layer of one or several layers.

    Attributes:
        stacked: gate names in the order torch stacks them.
        declared: gate names in the order of Burn's fields.
        bidirectional: whether it is Burn's two-directional struct.
    """

    stacked: tuple[str, ...]
    declared: tuple[str, ...]
    bidirectional: bool

    def holds(self, child: str) -> bool:
        """Return whether it is a gate, a direction or a layer, as Burn spells them."""
        return child.isdecimal() or child in {*self.declared, "forward", "reverse"}

    def structure(self, names: Mapping[str, object], args: Args) -> Args:
        """Count layers and directions by the names, unless a template has settled them."""
        if "hidden" in args:
            return args
        torch_names = [match for match in map(_TORCH_NAME.match, names) if match is not None]
        paths = [name.split(".") for name in names]
        # Counted, not taken from the largest number: a name in a hostile file may claim any layer.
        layers = {match["layer"] or "0" for match in torch_names} | {path[0] for path in paths if path[0].isdecimal()}
        both = any(match["reverse"] for match in torch_names) or any("reverse" in path[:2] for path in paths)
        return {"layers": max(len(layers), 1), "both": self.bidirectional or both, **args}

    def children(self, args: Args) -> tuple[Child, ...]:
        """Return both transforms of every gate, layer by layer, direction by direction."""
        hidden, bias = integer(args, "hidden"), flag(args, "bias", default=True)
        linear = PLAIN_LAYERS["Linear"]
        return tuple(
            Child(f"{place}{gate}.{transform}", linear, {"in": size, "out": hidden, "bias": bias})
            for layer, _, place in self._places(args)
            for gate in self.declared
            for transform, size in (
                ("input_transform", hidden * (1 + self._both(args)) if layer else integer(args, "in")),
                ("hidden_transform", hidden),
            )
        )

    def rename_to_burn(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Split every stacked tensor into its gates."""
        out = RenamedParams()
        places = {(layer, suffix): place for layer, suffix, place in self._places(args)}
        for name, part in parts.items():
            match = _TORCH_NAME.match(name)
            if match is None:
                self._pass(name, part, out)
                continue
            place = places.get((int(match["layer"] or 0), match["reverse"] or ""))
            if place is None:
                out.refuse(part.sources, f"{shown(name)} has no place in {self.describe()}", self._more_places(match))
            elif not self._stacks(match, part.array.shape):
                stack = f"{self.name} stacks {len(self.stacked)} gate{'s'[: len(self.stacked) > 1]}"
                what = f"{shown(name)} has shape {list(part.array.shape)}, {stack}"
                out.refuse(part.sources, what, "Give the module another type.")
            else:
                rows = part.array.shape[0] // len(self.stacked)
                gates = split(part.array, 0, (rows,) * len(self.stacked))
                for gate, array in zip(self.stacked, gates, strict=True):
                    leaf = f"{place}{gate}.{_HALVES[match['half']]}.{match['leaf']}"
                    out.put(leaf, Part(array, part.sources, part.note))
        return out

    def rename_to_torch(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Stack the gates of every layer and direction."""
        out = RenamedParams()
        for layer, suffix, place in self._places(args):
            for leaf in ("weight", "bias"):
                for half, transform in _HALVES.items():
                    names = [f"{place}{gate}.{transform}.{leaf}" for gate in self.stacked]
                    out.join(f"{leaf}_{half}_l{layer}{suffix}", names, parts)
        return out

    def _places(self, args: Args) -> Iterator[tuple[int, str, str]]:
        """Yield (layer, torch's suffix of the direction, path prefix in Burn) of every module Burn has."""
        layers, both = integer(args, "layers"), self._both(args)
        for layer in range(layers):
            number = f"{layer}." if layers > 1 else ""
            yield layer, "", f"{number}forward." if both else number
            if both:
                yield layer, "_reverse", f"{number}reverse."

    def _both(self, args: Args) -> bool:
        return flag(args, "both", default=self.bidirectional)

    def _stacks(self, match: re.Match[str], shape: tuple[int, ...]) -> bool:
        """Whether a tensor is as many blocks of rows as there are gates; blocks of `weight_hh` are square."""
        rows, left = divmod((shape or (1,))[0], len(self.stacked))
        square = match["leaf"] == "bias" or match["half"] == "ih" or shape[1:] == (rows,)
        return bool(shape) and left == 0 and square

    def _pass(self, name: str, part: Part, out: RenamedParams) -> None:
        """Take a leaf that is spelled as Burn spells it; a projection of the state has no home."""
        if _PROJECTION.match(name):
            what = f"{shown(name)} projects the state (proj_size), which Burn's {self.name} cannot"
            out.refuse(part.sources, what, "Train without proj_size, or drop the module.")
        else:
            out.put(name, part)

    def _more_places(self, match: re.Match[str]) -> str:
        if match["reverse"]:
            return f"It belongs to a second direction: give the module the type Bi{self.name}."
        return "Correct the number of layers."


def _pair(name: str, *, stacked: tuple[str, ...], declared: tuple[str, ...]) -> Iterator[RecurrentLayer]:
    """Yield Burn's struct for one direction and the one for two."""
    for bidirectional in (False, True):
        yield RecurrentLayer(
            name="Bi" * bidirectional + name,
            about=f"{', '.join(stacked)} (torch's order) split and transposed",
            signature=(
                Argument("in"),
                Argument("hidden"),
                Argument("layers", ArgType.COUNT, default=1, required=False),
                Argument("bias", ArgType.FLAG, default=True, required=False),
            ),
            stacked=stacked,
            declared=declared,
            bidirectional=bidirectional,
            classes=() if bidirectional else (f"torch.{name.upper()}", f"torch.{name.upper()}Cell"),
        )


RECURRENT_LAYERS: Mapping[str, RecurrentLayer] = {
    layer.name: layer
    for layer in (
        *_pair(
            "Lstm",
            stacked=("input_gate", "forget_gate", "cell_gate", "output_gate"),
            declared=("input_gate", "forget_gate", "output_gate", "cell_gate"),
        ),
        *_pair(
            "Gru",
            stacked=("reset_gate", "update_gate", "new_gate"),
            declared=("update_gate", "reset_gate", "new_gate"),
        ),
        *_pair("Rnn", stacked=("gate",), declared=("gate",)),
    )
}
"""Every recurrent layer by name."""
