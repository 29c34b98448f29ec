"""What adapters say, whatever the file is called: for each module the pieces of its change, and tensors that replace others.

Not here: reading names (`peft`, `kohya`), finding the tensors of the base (`matching`), sums (`low_rank`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from importer.arrays import Array

__all__ = ["Adapter", "Change", "Piece"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A tensor of the adapter, with the name it has there."""

    name: str
    array: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A low-rank change of one module.

    Attributes:
        module: dotted name, or kohya's name with underscores.
        down: `[rank, in, ...]`.
        up: `[out, rank, ...]`.
        factor: what `up @ down` is multiplied with.
        is_embedding: whether the product is transposed because the module is a table.
        magnitude: norms that the rows of the sum are to have (DoRA).
        bias: change of the bias, multiplied with `factor` as well.
        parts: everything of the adapter that goes into it.
    """

    module: str
    down: Piece
    up: Piece
    factor: float
    is_embedding: bool = False
    magnitude: Piece | None = None
    bias: Piece | None = None

    @property
    def parts(self) -> tuple[Piece, ...]:
        """Return everything of the adapter that goes into it."""
        return tuple(piece for piece in (self.down, self.up, self.magnitude, self.bias) if piece is not None)


@dataclass(slots=True)
class Adapter:
    """An adapter as read.

    Attributes:
        label: kind and settings in a few words.
        changes: low-rank changes.
        replaced: whole tensors that take the place of those of the base, by their name there.
        fan_in_fan_out: whether weights of the layers it is for are `[in, out]`, as far as it says.
        has_dots: whether modules are given as dotted names.
        aside: tensors of the adapter that change nothing, with the reason.
    """

    label: str
    changes: list[Change] = field(default_factory=list)
    replaced: dict[str, Piece] = field(default_factory=dict)
    fan_in_fan_out: bool = False
    has_dots: bool = True
    aside: dict[str, str] = field(default_factory=dict)
