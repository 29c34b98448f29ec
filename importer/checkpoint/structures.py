"""What containers and objects in an unpickled tree contain, whether plain values or inert calls stand for them.

Nothing is hashed or copied that the pickle has not hashed already. Not here: what the contents mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from importer.checkpoint.vocabulary import MAPPINGS, SEQUENCES
from importer.unpickling import Call, Global, plain

__all__ = ["attributes", "elements", "flat_parts", "is_mapping", "is_sequence", "items", "key_text", "pickled_bytes"]

_SLOTS_STATE = 2  # attributes and slots, where a class has both


def is_mapping(value: object) -> bool:
    """Whether a value is a dict, or a call that makes one of the standard library's."""
    return isinstance(value, dict) or (isinstance(value, Call) and _is_call_of(value, MAPPINGS))


def is_sequence(value: object) -> bool:
    """Whether a value is a list, tuple or set, or a call that makes one."""
    return isinstance(value, list | tuple | set | frozenset) or (
        isinstance(value, Call) and _is_call_of(value, SEQUENCES)
    )


def items(value: object) -> Iterator[tuple[object, object]]:
    """Yield keys and values of a mapping in order; nothing for any other value."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, Call):
        yield from (value.entries or {}).items()


def elements(value: object) -> Iterator[object]:
    """Yield the elements of a sequence in order; nothing for any other value."""
    if isinstance(value, list | tuple | set | frozenset):
        yield from map(plain, value)
    elif isinstance(value, Call):
        if is_sequence(value) and value.args and isinstance(value.args[0], list | tuple | set | frozenset):
            yield from map(plain, value.args[0])
        yield from map(plain, value.elements or ())


def attributes(call: Call) -> Mapping[object, object]:
    """Return the attributes an object would be given: its state, where that is a mapping, with its slots."""
    state = call.state
    if isinstance(state, dict):
        return state
    if isinstance(state, tuple) and len(state) == _SLOTS_STATE:
        return {name: value for part in state if isinstance(part, dict) for name, value in part.items()}
    if isinstance(state, Call) and is_mapping(state):
        return state.entries or {}
    return {}


def key_text(key: object) -> str:
    """Return how a dictionary key stands in a dotted name: a class as `module.name`, bytes as Latin-1."""
    key = plain(key)
    data = pickled_bytes(key) if isinstance(key, Call) else key
    if isinstance(data, bytes | bytearray):
        return data.decode("latin-1")
    if isinstance(key, frozenset):
        return f"frozenset({{{', '.join(repr(plain(part)) for part in key)}}})"
    return str(key)


def flat_parts(key: object) -> list[object]:
    """Return a key, or all that the tuples and sets in it hold; keys have few parts."""
    parts = [plain(key)]
    if isinstance(key, Call):  # bytes, as protocol 2 spells them
        parts.extend(key.args[:1])
    for part in parts:
        if isinstance(part, tuple | frozenset):
            parts.extend(map(plain, part))
    return parts


def pickled_bytes(data: object) -> bytes | None:
    """Return bytes as pickled: as such, or by protocol 2 as Latin-1 text to be encoded; None for anything else."""
    match data:
        case bytes() | bytearray():
            return bytes(data)
        case str():  # a Python 2 string whose bytes happen to be UTF-8
            return data.encode()
        case Call(callable=Global(module="_codecs", name="encode"), args=(str() as text, "latin1" | "latin-1")):
            return text.encode("latin-1", "replace")
        case Call(callable=Global(name="bytearray"), args=(bytes() as data,)):
            return data
        case Call(callable=Global(name="bytes" | "bytearray"), args=()):
            return b""
        case _:
            return None


def _is_call_of(call: Call, names: frozenset[tuple[str, str]]) -> bool:
    node = call.callable
    return isinstance(node, Global) and (node.module, node.name) in names
