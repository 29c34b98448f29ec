"""Names of the structs and enums that are generated.

Not here: names of fields, which are the target's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from importer.rust.rust_types import EnumType, LayerType, RustType, StructType, below

__all__ = ["camel", "name_types"]

_TAKEN = frozenset(
    [
        "Bool",
        "Box",
        "Clone",
        "Config",
        "Debug",
        "Device",
        "Display",
        "Err",
        "From",
        "Identity",
        "Initializer",
        "Int",
        "Into",
        "Iterator",
        "Module",
        "Ok",
        "Option",
        "Param",
        "ParamId",
        "Path",
        "RecordError",
        "Result",
        "Self",
        "Send",
        "Some",
        "String",
        "Sync",
        "Tensor",
        "Vec",
        "None",
    ]
)
_PLURALS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ses", "se"), ("s", ""))
_SHORT = 3


def camel(words: str) -> str:
    """Return a name as Rust writes types: `self_attn` → `SelfAttn`."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", words) if word)


def name_types(root: StructType, name: str) -> None:
    """Give every struct and enum of the module a name of its own."""
    used = {*_TAKEN, name, f"{name}Config"}
    root.name = name
    # An element that has no type of its own needs a name for its function only, and takes what the others leave.
    kinds = sorted(_own_types(root), key=lambda kind: isinstance(kind, StructType) and kind.is_transparent)
    for kind in kinds:
        if kind.name:
            continue
        kind.name = next(word for word in _candidates(kind) if word and word[0].isalpha() and word not in used)
        used.add(kind.name)


def _own_types(root: RustType) -> Iterator[StructType | EnumType]:
    seen: set[int] = set()
    stack = [root]
    while stack:
        kind = stack.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        if isinstance(kind, StructType | EnumType):
            yield kind
        stack += reversed(list(below(kind)))


def _candidates(kind: StructType | EnumType) -> Iterator[str]:
    """Yield names, the best first: what it holds if that is short, its place, its place with those above, a number."""
    words = [one.name for one in kind.fields]
    if (
        isinstance(kind, StructType)
        and 1 < len(words) <= _SHORT
        and all(isinstance(one.type, LayerType) and "_" not in one.name and one.name.isalpha() for one in kind.fields)
    ):
        yield camel("_".join(words))
    yield from _from_path(kind.hint)


def _from_path(path: Sequence[str]) -> Iterator[str]:
    name = ""
    for place in range(len(path) - 1, -1, -1):
        segment = path[place].strip("<>")
        if segment.isdecimal():
            continue
        is_element = place + 1 < len(path) and path[place + 1].isdecimal()
        word = camel(_singular(segment) if is_element else segment.rstrip("0123456789") or segment)
        name = word + name
        yield name
    number = 2
    while True:
        yield f"{name or 'Part'}{number}"
        number += 1


def _singular(word: str) -> str:
    for plural, one in _PLURALS:
        if word.endswith(plural) and len(word) > len(plural) + 1:
            return word.removesuffix(plural) + one
    return word
