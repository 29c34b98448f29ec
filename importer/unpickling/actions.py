"""What each opcode does to the stack, the memo and the values, with every type checked before it is acted on.

The commonest opcodes are carried out by `importer.unpickling.machine` in its loop; all others here, one function each.
Nothing here recurses, imports or calls anything a pickle names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from importer.budgets import SET
from importer.errors import UnsupportedError, shown
from importer.unpickling.container_calls import REBUILDERS
from importer.unpickling.state import State, kind_of
from importer.unpickling.values import Call, Global, PersistentId

__all__ = ["ACTIONS", "Action"]

Action: TypeAlias = Callable[[State, Any], None]
"""Takes the machine's state and the argument as `importer.unpickling.opcodes` reads it."""

_HIGHEST_PROTOCOL = 5
_HIGHEST_MEMO_INDEX = 0xFFFFFFFF
_TEXT_DIGITS_PER_BYTE = 3  # a byte is 2.4 digits; rounded up


# Text and numbers


def text(data: bytes) -> str:
    """Decode text. Lone surrogates, which no output could hold, come out escaped."""
    return str(data, "utf-8", "backslashreplace")


def _native_string(data: bytes) -> str | bytes:
    """Decode a string of Python 2, which says nothing of its encoding: text if it is UTF-8, else bytes."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return data


_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    """Return the byte an escape in a Python 2 string stands for."""
    hexadecimal, octal, letter = match.groups()
    if hexadecimal:
        return bytes((int(hexadecimal, 16),))
    if octal:
        return bytes((int(octal, 8) & 0xFF,))
    return _ESCAPED.get(letter, bytes(letter))


def _string(state: State, line: bytes) -> None:
    quoted = line.strip()
    if len(quoted) < 2 or quoted[:1] not in (b"'", b'"') or quoted[:1] != quoted[-1:]:  # noqa: PLR2004 - two quotes
        raise state.malformed("the string has no quotes")
    state.stack.append(_native_string(_ESCAPE.sub(_unescaped, quoted[1:-1])))


def _unicode(state: State, line: bytes) -> None:
    try:
        decoded = str(line, "raw-unicode-escape")
    except UnicodeDecodeError as error:
        raise state.malformed(f"the text is damaged ({error.reason})") from error
    state.stack.append(decoded.encode("utf-8", "backslashreplace").decode())


def _integer(state: State, line: bytes) -> int:
    """Read an integer written as text."""
    _bound_integer(state, len(line) // _TEXT_DIGITS_PER_BYTE)
    try:
        return int(line, 0)
    except ValueError:
        raise state.malformed(f"{shown(text(line))} is no integer") from None


def _int(state: State, line: bytes) -> None:
    booleans = {b"00": False, b"01": True}
    state.stack.append(booleans[line] if line in booleans else _integer(state, line))


def _long(state: State, line: bytes) -> None:
    state.stack.append(_integer(state, line.removesuffix(b"L")))


def _float(state: State, line: bytes) -> None:
    try:
        state.stack.append(float(line))
    except ValueError:
        raise state.malformed(f"{shown(text(line))} is no number") from None


def _binary_long(state: State, data: bytes) -> None:
    _bound_integer(state, len(data))
    state.stack.append(int.from_bytes(data, "little", signed=True))


def _bound_integer(state: State, length: int) -> None:
    """Refuse integers of excessive length."""
    allowed = state.limits.max_integer_bytes
    if length > allowed:
        raise state.limit("the integer is too long", limit="max_integer_bytes", allowed=allowed, actual=length)


# Stack and memo


def _pop(state: State, _argument: None) -> None:
    if state.stack:
        state.stack.pop()
    else:  # CPython: with nothing above the mark, the mark itself goes
        state.unmarked()


def _put(state: State, line: bytes) -> None:
    index = _integer(state, line)
    if not 0 <= index <= _HIGHEST_MEMO_INDEX:
        raise state.malformed(f"{index} is no memo index")
    state.memoize(index)


def _memoize(state: State, _argument: None) -> None:
    state.memoize(len(state.memo) + len(state.scattered))


def _get(state: State, line: bytes) -> None:
    state.stack.append(state.memoized(_integer(state, line)))


# Containers


def _tuple_of_two(state: State, _argument: None) -> None:
    second = state.stack.pop()
    state.stack[-1] = (state.stack[-1], second)


def _tuple_of_three(state: State, _argument: None) -> None:
    third = state.stack.pop()
    second = state.stack.pop()
    state.stack[-1] = (state.stack[-1], second, third)


def _dict(state: State, _argument: None) -> None:
    made: dict[object, object] = {}
    items = state.unmarked()
    state.stack.append(made)
    _set_entries(state, items)


def _frozenset(state: State, _argument: None) -> None:
    items = state.unmarked()
    state.budget.spend(SET)
    state.stack.append(frozenset(_as_keys(state, items)))


def _as_keys(state: State, items: list[object]) -> list[object]:
    """Return what to use for keys, or for elements of a set."""
    return [item if type(item) is str else state.key(item) for item in items]


def _empty_set(state: State, _argument: None) -> None:
    state.budget.spend(SET)
    state.stack.append(set())


def _append(state: State, _argument: None) -> None:
    item = state.stack.pop()
    _extend(state, [item])


def _extend(state: State, items: list[object]) -> None:
    """Append to the list on top of the stack, or to what would behave like one."""
    target = state.stack[-1]
    if type(target) is list:
        target.extend(items)
        return
    _refuse_filling(state, target)
    if target.elements is None:
        target.elements = []
    target.elements.extend(items)


def _set_item(state: State, _argument: None) -> None:
    value = state.stack.pop()
    key = state.stack.pop()
    _set_entries(state, [key, value])


def _set_entries(state: State, items: list[object]) -> None:
    """Fill the dict on top of the stack, or what would behave like one, with keys and values in turn."""
    target = state.stack[-1]
    if len(items) % 2:
        raise state.malformed("a key has no value")
    keys = _as_keys(state, items[::2])
    if type(target) is not dict:
        _refuse_filling(state, target)
        if target.entries is None:
            target.entries = {}
        target = target.entries
    target.update(zip(keys, items[1::2], strict=True))


def _refuse_filling(state: State, target: object) -> None:
    """Refuse to fill what is no container: a number, a class, a tensor."""
    rebuilt = isinstance(target, Call) and isinstance(target.callable, Global) and target.callable.module in REBUILDERS
    if rebuilt or not isinstance(target, Call):
        raise state.malformed(f"a {kind_of(target)} cannot be filled")


def _add_items(state: State, _argument: None) -> None:
    items = state.unmarked()
    target = state.stack[-1]
    if type(target) is not set:
        raise state.malformed(f"a {kind_of(target)} is no set")
    target.update(_as_keys(state, items))


# Globals, calls, the outside


def _global(state: State, lines: tuple[bytes, bytes]) -> None:
    state.stack.append(state.named(text(lines[0]), text(lines[1])))


def _stack_global(state: State, _argument: None) -> None:
    name = state.stack.pop()
    module = state.stack.pop()
    if type(module) is not str or type(name) is not str:
        raise state.malformed(f"module and name are a {kind_of(module)} and a {kind_of(name)}")
    state.stack.append(state.named(module, name))


def _inst(state: State, lines: tuple[bytes, bytes]) -> None:
    args = tuple(state.unmarked())
    state.stack.append(state.call(state.named(text(lines[0]), text(lines[1])), args))


def _obj(state: State, _argument: None) -> None:
    callable_, *args = state.unmarked() or [None]
    state.stack.append(state.call(callable_, tuple(args)))


def _reduce(state: State, _argument: None) -> None:
    args = state.stack.pop()
    state.stack[-1] = state.call(state.stack[-1], args)


def _new(state: State, _argument: None) -> None:
    args = state.stack.pop()
    state.stack[-1] = state.instance(state.stack[-1], args)


def _new_with_keywords(state: State, _argument: None) -> None:
    kwargs = state.stack.pop()
    args = state.stack.pop()
    if type(kwargs) is not dict:
        raise state.malformed(f"keyword arguments are a {kind_of(kwargs)}, not a dict")
    state.stack[-1] = state.instance(state.stack[-1], args, kwargs)


def _build(state: State, _argument: None) -> None:
    value = state.stack.pop()
    target = state.stack[-1]
    if not isinstance(target, Call):
        raise state.malformed(f"a {kind_of(target)} takes no state")
    if isinstance(value, Global):
        raise state.malformed(f"the {kind_of(value)} is no state")
    if target.state is not None:
        raise state.malformed(f"the {kind_of(target)} has its state already")
    target.state = value


def _text_persistent_id(state: State, line: bytes) -> None:
    state.stack.append(PersistentId(text(line)))
    state.persistent_ids.append(state.stack[-1])


# Refusals and framing


def _protocol(state: State, version: int) -> None:
    if version > _HIGHEST_PROTOCOL:
        raise UnsupportedError(
            f"pickle protocol {version} is not known here (0 to {_HIGHEST_PROTOCOL} are)",
            where=state.here,
            how="Save the file again with an older protocol.",
        )


def _extension(state: State, code: int) -> None:
    raise UnsupportedError(
        f"pickle extension code {code}: which class that is, only the program that wrote the file knows",
        where=state.here,
        how="Save the weights as a plain state dict.",
    )


def _buffer(state: State, _argument: None) -> None:
    raise UnsupportedError(
        "the pickle refers to a buffer outside itself, which no file can hold",
        where=state.here,
        how="Save the file again without `buffer_callback`.",
    )


def _pushes(make: Callable[[Any], object]) -> Action:
    """Return an action that pushes what `make` makes of the argument."""

    def push(state: State, argument: object) -> None:
        state.stack.append(make(argument))

    return push


def _collects(make: Callable[[list[Any]], object]) -> Action:
    """Return an action that pushes what `make` makes of the values above the mark."""

    def collect(state: State, _argument: None) -> None:
        items = state.unmarked()
        state.stack.append(make(items))

    return collect


def _ignored(_state: State, _argument: object) -> None:
    """Do nothing."""


ACTIONS: dict[str, Action] = {
    "POP": _pop,
    "POP_MARK": lambda state, _: _ignored(state, state.unmarked()),
    "DUP": lambda state, _: state.stack.append(state.stack[-1]),
    "PUT": _put,
    "GET": _get,
    "LONG_BINGET": lambda state, index: state.stack.append(state.memoized(index)),
    "BINGET": lambda state, index: state.stack.append(state.memoized(index)),
    "MEMOIZE": _memoize,
    "BINPUT": lambda state, index: state.memoize(index),
    "LONG_BINPUT": lambda state, index: state.memoize(index),
    "NONE": _pushes(lambda _: None),
    "NEWTRUE": _pushes(lambda _: True),
    "NEWFALSE": _pushes(lambda _: False),
    "BININT": _pushes(int),
    "INT": _int,
    "LONG": _long,
    "LONG1": _binary_long,
    "LONG4": _binary_long,
    "FLOAT": _float,
    "BINFLOAT": _pushes(float),
    "STRING": _string,
    "BINSTRING": _pushes(_native_string),
    "SHORT_BINSTRING": _pushes(_native_string),
    "UNICODE": _unicode,
    "SHORT_BINUNICODE": _pushes(text),
    "BINUNICODE8": _pushes(text),
    "BINBYTES": _pushes(bytes),
    "SHORT_BINBYTES": _pushes(bytes),
    "BINBYTES8": _pushes(bytes),
    "BYTEARRAY8": _pushes(bytearray),
    "EMPTY_TUPLE": _pushes(lambda _: ()),
    "TUPLE2": _tuple_of_two,
    "TUPLE3": _tuple_of_three,
    "EMPTY_LIST": _pushes(lambda _: []),
    "LIST": _collects(list),
    "APPEND": _append,
    "APPENDS": lambda state, _: _extend(state, state.unmarked()),
    "EMPTY_DICT": _pushes(lambda _: {}),
    "DICT": _dict,
    "SETITEM": _set_item,
    "SETITEMS": lambda state, _: _set_entries(state, state.unmarked()),
    "EMPTY_SET": _empty_set,
    "ADDITEMS": _add_items,
    "FROZENSET": _frozenset,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "INST": _inst,
    "OBJ": _obj,
    "REDUCE": _reduce,
    "NEWOBJ": _new,
    "NEWOBJ_EX": _new_with_keywords,
    "BUILD": _build,
    "PERSID": _text_persistent_id,
    "PROTO": _protocol,
    "FRAME": _ignored,
    "EXT1": _extension,
    "EXT2": _extension,
    "EXT4": _extension,
    "NEXT_BUFFER": _buffer,
    "READONLY_BUFFER": _buffer,
}
"""What every opcode does that is not in the machine's own loop, by name."""
