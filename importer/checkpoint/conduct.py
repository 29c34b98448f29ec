"""What a plain unpickler would do by the calls in a pickle: make data, run code, or nobody can say. The written rule.

Of every call the pickle asks for, by `REDUCE`, `INST` or `OBJ`:

1. The tensor format, plain types, and what `standard_library` lists make data. They pass.
2. Anything else of the standard library - and dill, which is made for pickling code - runs code, opens files or changes the
   program, or may: it is refused.
3. Third-party code passes and is listed: nobody can say from its name what it does, and most checkpoints name some.
4. What the pickle makes by a call and then calls: a class looked up by name or made by dill or cloudpickle counts as that
   class; a `functools.partial` as the function in it; anything else is refused, as attacks put names together so.
5. Functions that call what they are given (`map`, `functools.reduce`, torch's `_rebuild_from_type_v2`) count as calls of it;
   `setattr` passes on a class or function that the pickle has made itself, as dill finishes its classes.

An object made without a call of its class - `NEWOBJ`, as every ordinary object is pickled - passes, unless its class is of a
module made for running code. Closures and their parts are made, never called: they pass.

This decides only what is refused as an attack and what is marked; the defence is that nothing is ever called. Not here:
which names belong to the format (`vocabulary`), and the lists (`standard_library`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from importer.checkpoint.standard_library import MAKES_DATA, RUNS, STANDARD_LIBRARY, canonical_module
from importer.checkpoint.vocabulary import is_format, qualified_name
from importer.unpickling import Call, Callee, Global, Unpickled

__all__ = ["depends_on_argument", "hostile_call", "hostile_object", "indirect_calls"]

_THE_RESULT = "the result of another call"

_CLASS_MAKERS = frozenset(
    {
        ("cloudpickle.cloudpickle", "_make_skeleton_class"),
        ("cloudpickle.cloudpickle", "_rehydrate_skeleton_class"),
        ("cloudpickle.cloudpickle", "_make_skeleton_enum"),
        ("dill._dill", "_create_type"),
        ("dill._dill", "_create_namedtuple"),
        ("collections", "namedtuple"),
        ("typing", "NamedTuple"),
        ("builtins", "type"),
    }
)
"""Calls that make a class; of an enumeration or a named tuple a member is made by calling it, of others it is not."""

_DATA_CLASS_MAKERS = frozenset(
    {
        ("cloudpickle.cloudpickle", "_make_skeleton_enum"),
        ("dill._dill", "_create_namedtuple"),
        ("collections", "namedtuple"),
        ("typing", "NamedTuple"),
    }
)

_MAKERS = _CLASS_MAKERS | {
    ("cloudpickle.cloudpickle", "_make_function"),
    ("cloudpickle.cloudpickle", "_make_skel_func"),
    ("cloudpickle.cloudpickle", "_make_empty_cell"),
    ("dill._dill", "_create_cell"),
    ("dill._dill", "_create_function"),
    ("types", "CellType"),
    ("types", "FunctionType"),
}
"""Calls that make a class, a function, or a cell of one, out of what the file brings along."""

_NAMES_OF_CLASSES = frozenset({"__doc__", "__module__", "__name__", "__qualname__"})

_SETTERS = frozenset(
    {("builtins", "setattr"), ("builtins", "delattr"), ("dill._dill", "_setattr"), ("dill._dill", "_delattr")}
)
"""Functions that change what they are given: harmless on what the file has made itself, as dill finishes its classes."""

_CALL_THEIR_ARGUMENT: Mapping[tuple[str, str], int] = {
    ("builtins", "map"): 0,
    ("builtins", "filter"): 0,
    ("builtins", "iter"): 0,
    ("builtins", "reduce"): 0,
    ("functools", "reduce"): 0,
    ("itertools", "accumulate"): 1,
    ("itertools", "dropwhile"): 0,
    ("itertools", "filterfalse"): 0,
    ("itertools", "groupby"): 1,
    ("itertools", "ifilter"): 0,
    ("itertools", "ifilterfalse"): 0,
    ("itertools", "imap"): 0,
    ("itertools", "starmap"): 0,
    ("itertools", "takewhile"): 0,
    ("torch._tensor", "_rebuild_from_type"): 0,
    ("torch._tensor", "_rebuild_from_type_v2"): 0,
    ("torch.tensor", "_rebuild_from_type"): 0,
}
"""What calls one of its arguments, at once or when something goes through its results, and which."""


def hostile_call(callee: Callee) -> str | None:
    """Return the name of what would run code if a plain unpickler called `callee`, or None if it may pass."""
    if not isinstance(callee, Global | Call):
        return None
    node = qualified_name(callee)
    if node is not None:
        return None if _makes_data(node) or not _is_standard(node) else str(node)
    assert isinstance(callee, Call)  # a global has a name
    maker = _key(qualified_name(callee.callable))
    if maker == ("functools", "partial") and callee.args and isinstance(callee.args[0], Global | Call):
        return hostile_call(callee.args[0])
    return None if maker in _DATA_CLASS_MAKERS else _THE_RESULT


def hostile_object(callee: Callee) -> str | None:
    """Return the name of a class of which no empty object may be made, as its module is made for running code, or None."""
    node = qualified_name(callee)
    if node is None:
        made = isinstance(callee, Call) and _key(qualified_name(callee.callable)) in _CLASS_MAKERS
        return _THE_RESULT if isinstance(callee, Call) and not made else None
    runs = canonical_module(node.module).partition(".")[0] in RUNS or _passes_through(node)
    return str(node) if runs and not _makes_data(node) else None


def depends_on_argument(callee: Callee) -> bool:
    """Whether a call is harmless or not by what it is given; `indirect_calls` yields it where it is not."""
    return _key(qualified_name(callee)) in _SETTERS


def indirect_calls(tree: Unpickled) -> Iterator[tuple[Callee, bool]]:
    """Yield what the calls in a pickle would call in turn, and whether as a call or only to make an empty object of it."""
    for call in tree.handed:
        key = _key(qualified_name(call.callable))
        if key in {("copyreg", "__newobj__"), ("copyreg", "__newobj_ex__")}:
            yield from _given(call.args[:1], 0, is_call=False)
        elif key == ("copyreg", "_reconstructor"):
            yield from _reconstructed(call.args)
        elif key in _SETTERS:
            if not _sets_harmlessly(call.args):
                yield call.callable, True
        elif key is not None and (place := _CALL_THEIR_ARGUMENT.get(key)) is not None:
            yield from _given(call.args, place, is_call=True)


def _sets_harmlessly(args: tuple[object, ...]) -> bool:
    """Whether `setattr(target, name, value)` changes what the file has made, or only how a third-party class is called."""
    match args:
        case (Call(callable=maker), *_) if _key(qualified_name(maker)) in _MAKERS:
            return True
        case (target, str() as name, str(), *_) if name in _NAMES_OF_CLASSES:
            named = qualified_name(target)
            return named is not None and not _is_standard(named)
        case _:
            return False


def _reconstructed(args: tuple[object, ...]) -> Iterator[tuple[Callee, bool]]:
    """Yield what `copyreg._reconstructor(class, base, state)` calls: with a base other than `object` its `__init__`."""
    for base, _ in _given(args, 1, is_call=True):
        if _key(qualified_name(base)) != ("builtins", "object"):
            yield base, True
    yield from _given(args, 0, is_call=False)


def _given(args: tuple[object, ...], place: int, *, is_call: bool) -> Iterator[tuple[Callee, bool]]:
    """Yield the argument at a place if it is something that can be called."""
    if place < len(args):
        function = args[place]
        if isinstance(function, Global | Call):
            yield function, is_call


def _key(node: Global | None) -> tuple[str, str] | None:
    """Return module and name as the lists have them; dill looks its own functions up in `dill._dill`."""
    if node is None:
        return None
    if node.module == "dill" and node.name.startswith("_dill."):
        return "dill._dill", node.name.removeprefix("_dill.")
    return canonical_module(node.module), node.name


def _makes_data(node: Global) -> bool:
    return is_format(node) or _key(node) in MAKES_DATA or _key(node) == ("builtins", "getattr")


def _is_standard(node: Global) -> bool:
    """Whether a name is one of the standard library's, reached directly or through a module that imports it."""
    return node.module.partition(".")[0] in STANDARD_LIBRARY or _passes_through(node)


def _passes_through(node: Global) -> bool:
    """Whether a name leads through a module of the standard library: `torch.hub.os.system`."""
    *owners, _ = node.name.split(".")
    return not STANDARD_LIBRARY.isdisjoint(owners)
