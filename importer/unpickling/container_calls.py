"""Calls of Python's own containers and of torch's rebuilders: what they mean at the moment of the call.

`dict(pairs)`, `OrderedDict(pairs)`, `list(values)` copy their argument. A pickle may change it afterwards, repeat a key in it,
or set a key again; so the copy is made here as Python makes it, and one reading is left: a mapping has its entries, a
sequence its elements. Nothing is called. Not here: every other call, which keeps its arguments as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from importer.unpickling.values import Call, Global, plain

__all__ = ["REBUILDERS", "copied", "is_filled_when_made", "is_special", "is_unpickler"]

_BUILTINS = ("builtins", "__builtin__")
_PAIR = 2

_MAPPINGS = {("collections", "OrderedDict"): 0, ("collections", "defaultdict"): 1, ("collections", "Counter"): 0} | {
    (module, "dict"): 0 for module in _BUILTINS
}
"""Mappings, and which argument their first entries come from."""

_SEQUENCES = frozenset(
    {("collections", "deque"), ("torch", "Size")}
    | {(module, name) for module in _BUILTINS for name in ("list", "tuple", "set", "frozenset")}
)
_COPIES = frozenset(_MAPPINGS) | _SEQUENCES
"""What copies its argument, by module and name."""

_NESTED = ("torch.storage", "_load_from_bytes")
_FIRST_REBUILDER = ("torch._utils", "_rebuild_tensor")
REBUILDERS = frozenset({"torch._utils", "torch._tensor", "torch.tensor"})
"""Modules of functions that make tensors."""

AddKey: TypeAlias = Callable[[object], object]
"""Checks a key and returns what to use for it."""


def is_special(module: str, name: str) -> bool:
    """Whether a call of this global is more than its arguments: see `copied` and `is_unpickler`."""
    key = (module, name)
    return key in _COPIES or key in {_NESTED, _FIRST_REBUILDER}


def is_filled_when_made(target: Global) -> bool:
    """Whether an object made without a call of its class, by `NEWOBJ`, has its contents already: what cannot change later."""
    return target.name in {"tuple", "frozenset", "Size"}


def is_unpickler(target: Global) -> bool:
    """Whether a call unpickles its first argument in turn."""
    return (target.module, target.name) == _NESTED


def copied(target: Global, args: tuple[object, ...], key_of: AddKey) -> Call:
    """Return the call with everything it copies copied: the entries of a mapping, the elements of a sequence.

    Raises:
        ValueError: the argument is none Python would take.
        SourceError: as `key_of`.
    """
    name = (target.module, target.name)
    made = Call(target, args)
    if name in _MAPPINGS:
        place = _MAPPINGS[name]
        if len(args) > place and not (target.name == "Counter" and not _is_mapping(args[place])):
            made.entries = dict(_entries(args[place], key_of))
            made.args = args[:place]
    elif name in _SEQUENCES:
        if args and (elements := _elements(args[0])) is not None:
            made.args = (elements, *args[1:])
    elif target.module in REBUILDERS and any(isinstance(arg, dict | list | Call) for arg in args):
        # A tensor's size and lazy bits are looked at when it is made.
        made.args = tuple(map(_frozen, args))
    return made


def _frozen(arg: object) -> object:
    """Return a list as a tuple, and a copy of a mapping."""
    if isinstance(arg, list):
        return tuple(arg)
    if isinstance(arg, dict):
        return dict(arg)
    if not _is_mapping(arg) or not isinstance(arg, Call) or not arg.entries:
        return arg
    copy = Call(arg.callable, arg.args, arg.kwargs)
    copy.entries = dict(arg.entries)
    return copy


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, Call)
        and isinstance(value.callable, Global)
        and (value.callable.module, value.callable.name) in _MAPPINGS
    )


def _entries(source: object, key_of: AddKey) -> Iterable[tuple[object, object]]:
    """Yield keys and values as `dict(source)` would take them."""
    if isinstance(source, dict):
        return source.items()
    if isinstance(source, Call) and _is_mapping(source):
        return (source.entries or {}).items()
    elements = _elements(source)
    if elements is None:
        raise ValueError("a mapping is made of something that is none")
    return [_entry(element, key_of) for element in elements]


def _entry(pair: object, key_of: AddKey) -> tuple[object, object]:
    parts = _elements(pair)
    if parts is None or len(parts) != _PAIR:
        raise ValueError("a mapping is made of something that is no pair")
    key, value = parts
    return key if type(key) is str else key_of(key), value


def _elements(source: object) -> tuple[object, ...] | None:
    """Return what iterating over a value gives, None where that cannot be told."""
    if isinstance(source, list | tuple):
        return tuple(source)
    if isinstance(source, set | frozenset | dict):
        return tuple(map(plain, source))
    if isinstance(source, str):
        return tuple(source)
    if not isinstance(source, Call) or not isinstance(source.callable, Global):
        return None
    name = (source.callable.module, source.callable.name)
    if name in _MAPPINGS:
        return tuple(map(plain, source.entries or {}))
    if name not in _SEQUENCES:
        return None
    first = source.args[0] if source.args else ()
    return (*first, *(source.elements or ())) if isinstance(first, tuple) else None
