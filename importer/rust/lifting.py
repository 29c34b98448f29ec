"""Which numbers a constructor takes, and which stand in it.

A number that is the same for every instance of a struct stands in its constructor: as a field of the config, if it is
known which, else as it is. What differs from instance to instance becomes an argument, and arguments that always have one
value are one argument. The caller passes them on in the same way, up to the root. Not here: Rust text (`rust_text`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from importer.rust.burn_layers import arguments_of
from importer.rust.rust_types import EnumType, LayerType, ListType, Number, RustType, StructField, StructType, TupleType

__all__ = [
    "BuildAny",
    "BuildCall",
    "BuildEnum",
    "BuildList",
    "BuildTuple",
    "Cell",
    "Constructor",
    "LocalList",
    "Maybe",
    "RustExpression",
    "TakenNumber",
    "constructors",
    "literal",
]

Cell: TypeAlias = "Number | tuple[Cell, ...]"
"""A number, or the numbers of a list's elements; None where an instance has no such part."""


@dataclass(slots=True)
class TakenNumber:
    """An argument of a constructor: its Rust name and type, and its value for every instance."""

    name: str
    type: str
    values: list[Cell]


@dataclass(slots=True)
class LocalList:
    """A list of numbers that a constructor holds: its Rust name, its elements' Rust type, and the numbers."""

    name: str
    element: str
    value: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class RustExpression:
    """What stands at one place of a constructor: text, or the argument or the list of numbers it is."""

    text: str
    named: TakenNumber | LocalList | None = None
    indexed: bool = False

    def __str__(self) -> str:
        text = self.text if self.named is None else f"{self.text}{self.named.name}"
        return f"{text}[i]" if self.indexed else text


@dataclass(frozen=True, slots=True)
class BuildCall:
    """A call that makes a layer or a struct."""

    type: RustType
    arguments: tuple[RustExpression, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """A part that some instances lack."""

    condition: RustExpression
    build: BuildAny


@dataclass(frozen=True, slots=True)
class BuildList:
    """The elements of a `Vec`, all made by one call; `present` tells the gaps apart, where there are some."""

    type: ListType
    length: RustExpression
    element: BuildCall
    present: RustExpression | None


@dataclass(frozen=True, slots=True)
class BuildTuple:
    """The parts of a tuple."""

    type: TupleType
    parts: tuple[BuildAny, ...]


@dataclass(frozen=True, slots=True)
class BuildEnum:
    """One of an enum's variants; with several, which one is told by arguments of its own."""

    type: EnumType
    variants: tuple[tuple[str, RustExpression, BuildAny], ...]


BuildAny: TypeAlias = "BuildCall | Maybe | BuildList | BuildTuple | BuildEnum"


@dataclass(slots=True)
class Constructor:
    """How one struct is made."""

    struct: StructType
    arguments: list[TakenNumber] = field(default_factory=list)
    locals: list[LocalList] = field(default_factory=list)
    parts: list[tuple[str, BuildAny]] = field(default_factory=list)


def constructors(root: StructType, lengths: Callable[[tuple[str, ...]], str | None]) -> dict[int, Constructor]:
    """Return the constructor of every struct, by its identity; those of parts before those of wholes.

    Args:
        root: the whole module.
        lengths: a list's path → Rust expression of its length, if one is known.
    """
    made: dict[int, Constructor] = {}
    for struct in _parts_first(root):
        _Lifting(struct, made, lengths).run()
    return made


def _parts_first(kind: RustType) -> Iterator[StructType]:
    seen: set[int] = set()

    def walk(one: RustType) -> Iterator[StructType]:
        if id(one) in seen:
            return
        seen.add(id(one))
        if isinstance(one, ListType):
            yield from walk(one.element)
        elif not isinstance(one, LayerType):
            for part in one.fields:
                yield from walk(part.type)
            if isinstance(one, StructType):
                yield one

    yield from walk(kind)


@dataclass(frozen=True, slots=True)
class _Need:
    """One value a part needs: a name for it, its Rust type, its value per instance of the part, and its symbol if known."""

    name: str
    type: str
    values: Sequence[Cell]
    symbol: str | None


class _Lifting:
    """Makes the constructor of one struct."""

    def __init__(
        self, struct: StructType, made: dict[int, Constructor], lengths: Callable[[tuple[str, ...]], str | None]
    ) -> None:
        self._made = made
        self._lengths = lengths
        self._out = Constructor(struct)
        made[id(struct)] = self._out

    def run(self) -> None:
        """Fill in arguments and parts."""
        for one in self._out.struct.fields:
            self._out.parts.append((one.name, self._part(one.name, one.type, one.places)))
        _name_apart(self._out)

    def _part(self, name: str, kind: RustType, places: Sequence[int | None]) -> BuildAny:
        build = self._whole(name, kind, places)
        if None not in places:
            return build
        present = [place is not None for place in places]
        return Maybe(self._expression(_Need(f"has_{name}", "bool", present, None), range(len(places))), build)

    def _whole(self, name: str, kind: RustType, places: Sequence[int | None]) -> BuildAny:
        if isinstance(kind, ListType):
            return self._list(name, kind, places)
        if isinstance(kind, TupleType):
            parts = [self._part(f"{name}_{one.name}", one.type, _through(one, places)) for one in kind.fields]
            return BuildTuple(kind, tuple(parts))
        if isinstance(kind, EnumType):
            return self._enum(name, kind, places)
        needs = list(self._needs(kind))
        return BuildCall(kind, tuple(self._expression(_prefixed(name, need, kind), places) for need in needs))

    def _enum(self, name: str, kind: EnumType, places: Sequence[int | None]) -> BuildEnum:
        variants = []
        for one in kind.fields:
            inner = _through(one, places)
            present = [None if place is None else found is not None for place, found in zip(places, inner, strict=True)]
            word = one.name.strip("<>")
            # The last variant is what is left when no other holds.
            need = _Need(f"is_{word.lower()}", "bool", present, "true" if one is kind.fields[-1] else None)
            variants.append((word, self._expression(need, range(len(places))), self._whole(name, one.type, inner)))
        return BuildEnum(kind, tuple(variants))

    def _list(self, name: str, kind: ListType, places: Sequence[int | None]) -> BuildList:
        spans = [None if place is None else kind.spans[place] for place in places]
        paths = [kind.paths[place] for place in places if place is not None]
        symbols = {self._lengths(path) for path in paths}
        symbol = next(iter(symbols)) if len(symbols) == 1 else None
        counts: list[Cell] = [None if span is None else len(span) for span in spans]
        length = self._expression(_Need(f"n_{name}", "usize", counts, symbol), range(len(places)))
        present = None
        if kind.has_gaps:
            flags: list[Cell] = [None if span is None else tuple(one is not None for one in span) for span in spans]
            present = self._listed(_Need(f"has_{name}", "bool", flags, None))
        needs = [_prefixed(name, need, kind.element) for need in self._needs(kind.element)]
        element = BuildCall(kind.element, tuple(self._spread(need, spans) for need in needs))
        return BuildList(kind, length, element, present)

    def _needs(self, kind: RustType) -> Iterator[_Need]:
        """Yield what the constructor of a layer or a struct takes, values by instance of it."""
        if isinstance(kind, LayerType):
            for argument in arguments_of(kind):
                symbols = {argument.symbol(one) for one in kind.instances}
                symbol = next(iter(symbols)) if len(symbols) == 1 else None
                values = [argument.value(one) for one in kind.instances]
                yield _Need(argument.name, argument.type, values, symbol)
        elif isinstance(kind, StructType):
            for taken in self._made[id(kind)].arguments:
                yield _Need(taken.name, taken.type, taken.values, None)

    def _expression(self, need: _Need, places: Iterable[int | None]) -> RustExpression:
        """Return what stands for a value that every instance of this struct has once."""
        values = [None if place is None else need.values[place] for place in places]
        if need.symbol is not None:
            return RustExpression(need.symbol)
        known = {value for value in values if value is not None}
        if not known and not need.type.startswith("&"):
            return RustExpression(literal(None, need.type))
        if len(known) == 1 and not need.type.startswith("&"):
            return RustExpression(literal(next(iter(known))))
        if len(known) == 1:
            return RustExpression("&", self._local(need.name, need.type[2:-1], next(iter(known))))
        return RustExpression("", self._argument(need, values))

    def _local(self, name: str, element: str, value: Cell) -> LocalList:
        """Return the list of numbers with this value."""
        numbers = value if isinstance(value, tuple) else ()
        same = (one for one in self._out.locals if (one.value, one.element) == (numbers, element))
        found = next(same, None)
        if found is None:
            found = LocalList(name, element, numbers)
            self._out.locals.append(found)
        return found

    def _spread(self, need: _Need, spans: Sequence[Sequence[int | None] | None]) -> RustExpression:
        """Return what stands for a value that every element of a list has."""
        if need.symbol is not None:
            return RustExpression(need.symbol)
        rows = [
            None if span is None else tuple(None if one is None else need.values[one] for one in span) for span in spans
        ]
        flat = {value for row in rows if row is not None for value in row if value is not None}
        if len(flat) == 1:
            value = next(iter(flat))
            if need.type.startswith("&"):
                return RustExpression("&", self._local(need.name, need.type[2:-1], value))
            return RustExpression(literal(value))
        per_row = [None if row is None else {value for value in row if value is not None} for row in rows]
        if all(row is None or len(row) <= 1 for row in per_row):
            values: list[Cell] = [next(iter(row)) if row else None for row in per_row]
            return RustExpression("", self._argument(need, values))
        return self._listed(_Need(need.name, need.type, [_filled(row) for row in rows], None))

    def _listed(self, need: _Need) -> RustExpression:
        """Return the place `i` of a list of values."""
        values = list(need.values)
        known = {value for value in values if value is not None}
        if len(known) == 1:
            return RustExpression("", self._local(need.name, need.type, next(iter(known))), indexed=True)
        listed = _Need(need.name, f"&[{need.type}]", values, None)
        return RustExpression("", self._argument(listed, values), indexed=True)

    def _argument(self, need: _Need, values: list[Cell]) -> TakenNumber:
        """Return the argument with these values; one that agrees wherever both are known is the same argument."""
        for one in self._out.arguments:
            if one.type == need.type and all(
                a is None or b is None or a == b for a, b in zip(one.values, values, strict=True)
            ):
                one.values = [b if a is None else a for a, b in zip(one.values, values, strict=True)]
                return one
        made = TakenNumber(need.name, need.type, values)
        self._out.arguments.append(made)
        return made


def _through(one: StructField, places: Sequence[int | None]) -> list[int | None]:
    """Return the positions of a field's values for these instances of its owner."""
    return [None if place is None else one.places[place] for place in places]


def _prefixed(name: str, need: _Need, kind: RustType) -> _Need:
    if isinstance(kind, StructType):
        return need
    return _Need(f"{name}_{need.name}", need.type, need.values, need.symbol)


def _filled(row: Sequence[Cell] | None) -> Cell:
    """Fill gaps in a list's values, which nobody reads, with a neighbour's."""
    if row is None:
        return None
    some = next((value for value in row if value is not None), None)
    return tuple(some if value is None else value for value in row)


def literal(value: Cell, kind: str = "") -> str:
    """Return a value as Rust writes it; a list inside a list is a slice, since lengths may differ."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        inner = kind[2:-1] if kind.startswith("&[") else ""
        return f"{'&' * kind.startswith('&')}[{', '.join(literal(one, inner) for one in value)}]"
    if value is None and kind.startswith("["):
        size, count = kind[1:-1].rsplit("; ", 1)
        return f"[{literal(None, size)}; {count}]"
    return ("false" if kind == "bool" else "0") if value is None else str(value)


def _name_apart(made: Constructor) -> None:
    """Give every argument a name of its own that no part has."""
    taken = {"config", "device", "i"}
    named: list[TakenNumber | LocalList] = [*made.arguments, *made.locals]
    for one in named:
        name, number = one.name, 2
        while name in taken:
            name, number = f"{one.name}_{number}", number + 1
        one.name = name
        taken.add(name)
