"""What the Rust generator works on: declared layers with their numbers, and the types that a Rust module is made of.

Not here: where layers come from (`declaring`), how instances of one type are found (`unifying`), and text (`rust_text`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "ConfigField",
    "Declared",
    "EnumType",
    "LayerType",
    "ListType",
    "Number",
    "PathNode",
    "RustTarget",
    "RustType",
    "StructField",
    "StructType",
    "TupleType",
    "below",
]

Number: TypeAlias = "int | bool | str | tuple[int, ...] | None"
"""A settled argument of a layer; None where it says nothing."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One layer or bare parameter of the target.

    Attributes:
        path: segments of its name; a variant of an enum is written `<Basic>`.
        kind: a name of `importer.adapters.LAYERS`.
        args: argument name → value, defaults filled in.
        symbols: argument name → Rust expression over the config struct that has this value, where one is known.
        element: `float`, `int` or `bool`; of a bare parameter.
        doubt: what its parameters leave open, for a comment; "" where nothing.
    """

    path: tuple[str, ...]
    kind: str
    args: Mapping[str, Number]
    symbols: Mapping[str, str] = field(default_factory=dict)
    element: str = "float"
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class ConfigField:
    """A field of the config struct.

    Attributes:
        name: Rust field.
        type: `usize`, `bool`, `f64` or `Vec<usize>`.
        default: Rust expression; "" for a value that the caller must give.
        about: one line for its doc comment.
    """

    name: str
    type: str
    default: str
    about: str


@dataclass(frozen=True, slots=True)
class RustTarget:
    """Everything that is known of the module to write.

    Attributes:
        name: name of the root struct.
        layers: in declaration order.
        lengths: wildcard path of a list (`*` for a number) → Rust expression of its length.
        settings: fields of the config struct, in order.
        about: lines for the module's comment.
    """

    name: str
    layers: tuple[Declared, ...]
    lengths: Mapping[tuple[str, ...], str]
    settings: tuple[ConfigField, ...]
    about: tuple[str, ...]


@dataclass(slots=True)
class PathNode:
    """A segment of names with what stands below it; a layer, or further segments."""

    path: tuple[str, ...]
    children: dict[str, PathNode] = field(default_factory=dict)
    layer: Declared | None = None

    @property
    def is_list(self) -> bool:
        """Whether its children are numbered."""
        return bool(self.children) and all(name.isdecimal() for name in self.children)

    @property
    def is_enum(self) -> bool:
        """Whether its children are variants of an enum."""
        return bool(self.children) and all(name.startswith("<") for name in self.children)


@dataclass(slots=True)
class LayerType:
    """A layer of Burn, or a bare parameter, with every place that has it."""

    kind: str
    rank: int
    element: str
    instances: list[Declared]


@dataclass(slots=True)
class StructField:
    """A field of a struct.

    Attributes:
        name: Rust field.
        type: its type.
        places: for each instance of the struct, the position of its value among the type's instances; None: it has none.
    """

    name: str
    type: RustType
    places: list[int | None]

    @property
    def is_optional(self) -> bool:
        """Whether some instance lacks it."""
        return None in self.places


@dataclass(slots=True)
class StructType:
    """A struct of our own.

    Attributes:
        hint: path of its first instance.
        fields: in declaration order.
        instances: how many values of it the module has.
        is_transparent: whether it stands for its only field, an element of a list that is no struct itself: it has a
            constructor, which is a function, and no Rust type of its own.
        name: its Rust name, once it is given.
    """

    hint: tuple[str, ...]
    fields: list[StructField]
    instances: int
    is_transparent: bool = False
    name: str = ""


@dataclass(slots=True)
class ListType:
    """A `Vec`; `spans` has, for each list, the positions of its elements. None is a gap in the numbers."""

    element: RustType
    spans: list[list[int | None]]
    paths: list[tuple[str, ...]]

    @property
    def has_gaps(self) -> bool:
        """Whether some number is left out."""
        return any(None in span for span in self.spans)


@dataclass(slots=True)
class TupleType:
    """A numbered list whose elements are of different types; a field may be a gap (`Identity`)."""

    fields: list[StructField]
    instances: int


@dataclass(slots=True)
class EnumType:
    """An enum of our own; every field is a variant, and every instance has exactly one of them."""

    hint: tuple[str, ...]
    fields: list[StructField]
    instances: int
    name: str = ""


RustType: TypeAlias = "LayerType | StructType | ListType | TupleType | EnumType"


def below(kind: RustType) -> Iterator[RustType]:
    """Yield the types a type is made of."""
    if isinstance(kind, ListType):
        yield kind.element
    elif isinstance(kind, StructType | TupleType | EnumType):
        yield from (one.type for one in kind.fields)
