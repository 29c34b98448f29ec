"""What a layer kind is: its signature, its parameters in Burn, and the outcome of taking a module across.

Not here: the kinds themselves (`plain`, `recurrent`, `attention`), and which class is which kind (`classes`).

A kind is what a recipe writes in a template (`fc: Linear(512, 10)`) or under `types`. *Leaf* below means a parameter's
name inside its module: `weight`, `in_proj_weight`, or a dotted path where a kind holds further modules
(`mha.query.weight`). Torch-side leaves may be spelled as torch spells them or already by Burn's field names; the
orientation is torch's in both cases, as it is for everything a recipe's steps see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from importer.arrays import Array
from importer.errors import UsageError, shown
from importer.problems import Problem

__all__ = [
    "Adapted",
    "AdaptedParam",
    "ArgType",
    "ArgValue",
    "Args",
    "Argument",
    "Dropped",
    "LayerKind",
    "Problem",
    "Shapes",
    "flag",
    "integer",
    "integers",
    "problems_of",
]

ArgValue = int | bool | str | tuple[int, ...] | None
Args = Mapping[str, ArgValue]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


_MAX_LAYERS = 10_000
"""Layers of one stack. The deepest published ones have a few hundred; a recipe may come from anywhere."""


class ArgType(str, Enum):
    """What an argument of a layer may be."""

    SIZE = "a size"
    COUNT = f"a number of layers up to {_MAX_LAYERS}"
    KERNEL = "a size, or one per dimension"
    FLAG = "True or False"
    LAYOUT = "'row' or 'col'"
    SIZES = "sizes"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a layer's signature.

    Attributes:
        name: as it is written (`in`, `bias`).
        type: what it may be; `SIZES` takes all remaining positional values.
        default: value when it is left out. None: unknown; adapting says so where it matters.
        required: whether a template must give it. An entry of `types` may leave out everything.
    """

    name: str
    type: ArgType = ArgType.SIZE
    default: ArgValue = None
    required: bool = True

    def __str__(self) -> str:
        if self.type is ArgType.SIZES:
            return f"{self.name}..."
        return self.name if self.required else f"{self.name}={self.default!r}"


@dataclass(frozen=True, slots=True)
class AdaptedParam:
    """One parameter on the other side.

    Attributes:
        name: leaf below the module's path; "" when the path itself is the parameter.
        array: its values, in the layout of that side.
        layer: Burn struct that owns it (`Linear`, also inside an `Lstm`); "" for a bare parameter.
        sources: leaves it was made from; empty when it was synthesised.
        note: what was done beyond renaming and transposing, for the report.
    """

    name: str
    array: Array
    layer: str
    sources: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A leaf that the other side has no use for, and why that loses nothing."""

    leaf: str
    reason: str


def problems_of(leaves: Iterable[str], what: str, how: str) -> tuple[Problem, ...]:
    """Return the same fault for each of the leaves it concerns, so that every one is accounted for."""
    return tuple(Problem(leaf, what, how) for leaf in leaves)


@dataclass(frozen=True, slots=True)
class Adapted:
    """A module taken across: every leaf given is in a piece's sources, dropped, or at fault."""

    params: tuple[AdaptedParam, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    faults: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind(ABC):
    """A Burn layer (or a bare parameter) that torch modules feed.

    Attributes:
        name: the Burn struct's name, as recipes write it.
        signature: its arguments, in order.
        about: one line for the reference page.
        classes: classes whose modules are of this kind, as `library.Name`; torch's own as `torch.Name`.
        attributes: what the constructor of torch's class sets; a class nobody has heard of that has all of them is likely one.
        halves: whether Burn's HalfPrecisionAdapter casts it; BatchNorm is left in f32 on purpose (burn-spec 5.3).
    """

    name: str
    signature: tuple[Argument, ...] = ()
    about: str = ""
    classes: tuple[str, ...] = ()
    attributes: frozenset[str] = frozenset()
    halves: bool = False

    def holds(self, child: str) -> bool:
        """Whether the layer has a module of this name inside, as torch or Burn spells it; most have none."""
        del child
        return False

    def may_own(self, leaf: str) -> bool:
        """Whether a name below the layer's path can be its parameter, rather than one of a module beside its parameters.

        A layer's own parameters, whatever they are called, those of its parametrizations, and what lies in its children.
        """
        head, dot, _ = leaf.partition(".")
        return not dot or head == "parametrizations" or self.holds(head)

    @abstractmethod
    def burn_params(self, args: Args) -> Shapes:
        """Return (leaf, shape) of every parameter Burn's module has, in its field order.

        Raises:
            UsageError: the arguments contradict each other (`in` is no multiple of `groups`).
        """

    @abstractmethod
    def to_burn(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Take one module's torch-side parameters to Burn's names and layouts.

        Args:
            params: leaf → array. Sizes are taken from here where `args` lacks them.
            args: from `bind`; may be empty.
        """

    @abstractmethod
    def to_torch(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """The way back: Burn's leaves to the names and layouts a torch state dict has."""

    def bind(self, positional: Sequence[ArgValue], named: Mapping[str, ArgValue], *, partial: bool = False) -> Args:
        """Match values with the signature.

        Args:
            positional: values in order.
            named: values by name.
            partial: whether arguments may be missing (an entry of `types`). What is not written then stays unknown,
                and the parameters themselves tell it.

        Returns:
            Argument name → value, defaults filled in unless `partial`.

        Raises:
            UsageError: too many, unknown, twice given, missing or wrong values.
        """
        given = {name: self._checked(name, value) for name, value in self._given(positional, named).items()}
        if partial:
            return given
        for argument in self.signature:
            if argument.name not in given and argument.required:
                raise self._misuse(f"the argument {argument.name!r} is missing")
        return {argument.name: given.get(argument.name, argument.default) for argument in self.signature}

    def describe(self) -> str:
        """Return the signature as recipes write it: `Linear(in, out, bias=True, layout='row')`."""
        return f"{self.name}({', '.join(map(str, self.signature))})"

    def _given(self, positional: Sequence[ArgValue], named: Mapping[str, ArgValue]) -> dict[str, ArgValue]:
        if self.signature and self.signature[0].type is ArgType.SIZES:
            dims = tuple(value for value in positional if isinstance(value, int) and not isinstance(value, bool))
            if named or len(dims) != len(positional):
                raise self._misuse("only sizes may stand here")
            return {self.signature[0].name: dims}
        if len(positional) > len(self.signature):
            raise self._misuse(f"{len(positional)} values are given")
        given = {argument.name: value for argument, value in zip(self.signature, positional, strict=False)}
        known = {argument.name for argument in self.signature}
        for name, value in named.items():
            if name not in known:
                raise self._misuse(f"there is no argument {shown(name)}")
            if name in given:
                raise self._misuse(f"the argument {name!r} is given twice")
            given[name] = value
        return given

    def _checked(self, name: str, value: ArgValue) -> ArgValue:
        argument = next(argument for argument in self.signature if argument.name == name)
        unknown = value is None and not argument.required and argument.default is None
        if not unknown and not _fits(argument.type, value):
            raise self._misuse(f"{name!r} is {shown(repr(value))}, it must be {argument.type.value}")
        return value

    def _misuse(self, what: str) -> UsageError:
        return UsageError(f"{self.name}: {what}", how=f"Write {self.describe()}.")


def _fits(kind: ArgType, value: ArgValue) -> bool:
    if kind is ArgType.FLAG:
        return isinstance(value, bool)
    if kind is ArgType.LAYOUT:
        return value in ("row", "col")
    if isinstance(value, tuple):
        return kind in (ArgType.KERNEL, ArgType.SIZES) and all(map(_is_size, value))
    return _is_size(value, _MAX_LAYERS if kind is ArgType.COUNT else None)


def _is_size(value: ArgValue, limit: int | None = None) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= 0 and (limit is None or value <= limit)


def integer(args: Args, name: str) -> int:
    """Return a size; 0 where it is not known (an entry of `types` without arguments)."""
    value = args.get(name)
    return value if isinstance(value, int) else 0


def flag(args: Args, name: str, *, default: bool = False) -> bool:
    """Return a flag; `default` where it is not given."""
    value = args.get(name)
    return value if isinstance(value, bool) else default


def integers(args: Args, name: str, count: int) -> tuple[int, ...]:
    """Return `count` sizes: a single one stands for all."""
    value = args.get(name)
    if isinstance(value, tuple):
        return value
    return (value if isinstance(value, int) else 0,) * count
