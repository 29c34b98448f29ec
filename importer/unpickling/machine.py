"""The pickle machine: runs a pickle over inert values and gives back what it would have built.

This is our own: nothing a pickle names is imported or called, nothing recurses, and every length is held against the
bytes that are left. Not here: the opcode table (`opcodes`), and what the rarer opcodes do (`actions`).
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

from importer.budgets import OPCODE, Budget
from importer.errors import Location, TruncatedError
from importer.limits import DEFAULT_LIMITS, Limits
from importer.unpickling.actions import ACTIONS
from importer.unpickling.opcodes import OPCODES, Buffer
from importer.unpickling.state import HANDED, State
from importer.unpickling.values import Call, Global, PersistentId, Unpickled

__all__ = ["collection_paused", "unpickle"]

_BINGET, _BININT1, _BININT2, _BINPERSID, _BINUNICODE = b"hKMQX"
_LONG_BINPUT, _MARK, _REDUCE, _TUPLE, _TUPLE1, _NEWFALSE, _STOP = b"r(Rt\x85\x89."

_unpack_u16 = struct.Struct("<H").unpack_from
_unpack_u32 = struct.Struct("<I").unpack_from
_TENSOR_END = struct.Struct("<3sI2sI2sI")
_HIGHEST_SHORT_INDEX = 0xFF
_LAZY_BITS = 6  # a tensor with more arguments has some, which `State.call` looks at
_CHUNK = 1 << 14
"""Instructions between two payments."""

_RARER = {code: (opcode, ACTIONS[opcode.name]) for code, opcode in OPCODES.items() if opcode.name in ACTIONS}


def unpickle(
    data: Buffer, *, where: Location, limits: Limits = DEFAULT_LIMITS, start: int = 0, budget: Budget | None = None
) -> Unpickled:
    """Read the pickle that begins at `start` of `data`; what follows its `STOP` is left alone.

    Args:
        data: bytes, or a memory-mapped file, which is not copied.
        where: file and record the bytes come from, for errors; its offset is that of `data[0]`.
        limits: bounds; `max_pickle_bytes`, `max_opcodes`, `max_integer_bytes` and those on keys apply here.
        start: offset of the first opcode.
        budget: what it may cost, in the account of the whole source; one for these bytes alone if not given.

    Returns:
        The value with everything the pickle names, `end` being the offset behind it.

    Raises:
        TruncatedError: the bytes end before `STOP`.
        MalformedPickleError: an unknown opcode, or one applied to the wrong kind of value.
        UnsupportedError: an unknown protocol, an extension code, an out-of-band buffer.
        LimitError: a bound is passed.
    """
    state = State(where, limits, Budget(limits, len(data) - start) if budget is None else budget)
    bounded = data
    if len(data) - start > limits.max_pickle_bytes:
        bounded = memoryview(data)[: start + limits.max_pickle_bytes]
    try:
        with collection_paused():
            end = _run(state, bounded, start)
    except EOFError:
        if bounded is data:
            raise TruncatedError(
                "the pickle is cut off", where=state.here, how="The file is incomplete: download or copy it again."
            ) from None
        allowed = limits.max_pickle_bytes
        raise state.limit(
            "the pickle is too long", limit="max_pickle_bytes", allowed=allowed, actual=len(data)
        ) from None
    return Unpickled(
        state.stack[-1],
        end,
        tuple(state.globals.values()),
        tuple(state.called.values()),
        tuple(state.persistent_ids),
        tuple(state.instantiated.values()),
        tuple(state.handed),
        tuple(state.nested),
    )


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector: it would go through the growing tree again and again, and find nothing.

    What has been made by the end counts as old, so that it is not gone through at once either.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _run(state: State, data: Buffer, position: int) -> int:
    """Carry out opcodes up to `STOP`, paying for them, and return the offset behind it.

    Raises:
        EOFError: the bytes end before.
    """
    left, ended = state.limits.max_opcodes, False
    while left > 0:
        begin, count = position, min(left, _CHUNK)
        position, ended = _run_chunk(state, data, position, count)
        left -= count
        state.at = position - 1
        # At most one instruction a byte.
        state.budget.spend(OPCODE * min(count, position - begin), state.here)
        if ended:
            return position
    allowed = state.limits.max_opcodes
    raise state.limit("the pickle does not end", limit="max_opcodes", allowed=allowed, actual=allowed + 1)


def _run_chunk(state: State, data: Buffer, position: int, count: int) -> tuple[int, bool]:  # noqa: C901, PLR0912, PLR0915 - see the docstring
    """Carry out `count` opcodes, or those up to `STOP`; return the offset behind the last one and whether that was it.

    The opcodes of a state dict are carried out right here, commonest first: there are some 35 for every tensor, and a
    call for each would double the time. Reading past the end is not checked each time either: a slice that comes out
    short leaves `position` behind the end, and the next fetch fails.

    Raises:
        EOFError: the bytes end before.
    """
    stack, metastack, memo, scattered, called = state.stack, state.metastack, state.memo, state.scattered, state.called
    special = state.special
    code = 0
    try:
        for _ in repeat(None, count):
            code = data[position]
            position += 1
            if code == _LONG_BINPUT and _unpack_u32(data, position)[0] == len(memo) and not scattered:
                memo.append(stack[-1])
                position += 4
            elif code == _BINGET and (index := data[position]) < len(memo):
                stack.append(memo[index])
                position += 1
            elif code == _BININT1:
                stack.append(data[position])
                position += 1
            elif code == _BINUNICODE:
                begin = position + 4
                position = begin + _unpack_u32(data, position)[0]
                stack.append(str(data[begin:position], "utf-8", "backslashreplace"))
            elif code == _MARK:
                metastack.append(stack)
                stack = []
            elif code == _TUPLE:
                items = tuple(stack)
                stack = metastack.pop()
                stack.append(items)
            elif (
                code == _REDUCE
                and type(args := stack[-1]) is tuple
                and (not args or (type(args[0]) not in HANDED and len(args) <= _LAZY_BITS))
                and type(target := stack[-2]) is Global
                and (not args or id(target) not in special)
            ):
                stack.pop()
                called[id(target)] = target
                stack[-1] = Call(target, args)
            elif code == _TUPLE1:
                stack[-1] = (stack[-1],)
            elif code == _BINPERSID:
                stack[-1] = node = PersistentId(stack[-1])
                state.persistent_ids.append(node)
            elif code == _NEWFALSE:
                state.stack = stack
                position = _push_false(state, data, position)
                stack = state.stack
            elif code == _BININT2:
                stack.append(_unpack_u16(data, position)[0])
                position += 2
            elif code == _STOP:
                state.stack[:] = [stack[-1]]
                return position, True
            else:
                state.stack = stack
                position = _carry_out(state, code, data, position)
                stack = state.stack
    except (LookupError, struct.error) as error:
        raise _explained(state, data, position, code, error) from None
    state.stack = stack
    return position, False


def _push_false(state: State, data: Buffer, position: int) -> int:
    """Carry out `NEWFALSE` and, where they follow, the nine opcodes behind it in every tensor; return the offset behind.

    False (no gradient) is the last but one argument of a tensor. `BINGET EMPTY_TUPLE REDUCE` makes the last one, an ordered
    dict; `TUPLE` collects the arguments, `REDUCE` makes the tensor; and each of the three is put in the memo. Done at
    once, the whole pickle takes an eighth less time. Whatever is not exactly so is left to the loop.
    """
    stack, memo = state.stack, state.memo
    stack.append(False)
    count = len(memo)
    end = position + 2 + _TENSOR_END.size
    puts = _TENSOR_END.pack(b")Rr", count, b"tr", count + 1, b"Rr", count + 2)
    if (
        data[position + 2 : end] != puts
        or data[position] != _BINGET
        or count <= _HIGHEST_SHORT_INDEX
        or len(stack) >= _LAZY_BITS
    ):
        return position
    outer = state.metastack[-1] if state.metastack and not state.scattered else []
    hooks = memo[data[position + 1]]
    if type(hooks) is not Global or not outer or type(target := outer[-1]) is not Global:
        return position
    if id(target) in state.special:
        return position
    state.called[id(hooks)] = hooks
    state.called[id(target)] = target
    stack.append(made := Call(hooks, ()))
    items = tuple(stack)
    outer[-1] = tensor = Call(target, items)
    memo += (made, items, tensor)
    state.stack = state.metastack.pop()
    return end


def _carry_out(state: State, code: int, data: Buffer, position: int) -> int:
    """Carry out one of the rarer opcodes and return the offset behind its argument."""
    state.at = position - 1
    opcode, act = _RARER[code]
    state.name = opcode.name
    argument, position = opcode.read(data, position)
    act(state, argument)
    return position


def _explained(state: State, data: Buffer, position: int, code: int, fault: Exception) -> Exception:
    """Return what an empty stack, an absent memo entry or a short read comes from.

    Args:
        state: gets the place and name of the opcode.
        data: the pickle.
        position: behind the byte of the opcode, or behind the end.
        code: the opcode at work, or the last one if the next could not be fetched.
        fault: what was raised.
    """
    if isinstance(fault, struct.error) or (position >= len(data) and code != _STOP):
        return EOFError()
    state.at = position - 1
    opcode = OPCODES.get(code)
    if opcode is None:
        state.name = f"{code:#04x}"
        return state.malformed("there is no such opcode")
    state.name = opcode.name
    if isinstance(fault, KeyError):
        argument, _ = opcode.read(data, position)
        return state.malformed(f"nothing is in the memo at {argument!r}")
    return state.malformed("the stack is empty")
