"""Tensor subclasses that hold other tensors: class, attributes, and the parts among them. No class is looked up.

Not here: which classes mean what (`importer.quantized`).

Format facts: `torch._utils._rebuild_wrapper_subclass(class, dtype, size, strides, offset, layout, device, requires_grad)`,
called by `torch._tensor._rebuild_from_type_v2` with the object's attributes as state.
"""

from __future__ import annotations

from collections.abc import Callable

from importer.arrays import Array
from importer.budgets import CONTAINER, STEP, Budget
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.dtypes import dtype_of_torch
from importer.errors import shown
from importer.quantized import Composite
from importer.unpickling import Call, Global

__all__ = ["is_wrapper", "read_composite"]

_WRAPPER = ("torch._utils", "_rebuild_wrapper_subclass")
_MAX_DEPTH = 8

Read = Callable[[Call], "Dense | NotDense | Packed | None"]
"""Reads the tensor that a call stands for."""


def is_wrapper(node: object) -> bool:
    """Whether a global is the function that makes tensors without data of their own."""
    return isinstance(node, Global) and (node.module, node.name) == _WRAPPER


def read_composite(read: Read, call: Call, budget: Budget, depth: int = 0) -> Packed | None:
    """Return a tensor subclass with its parts, or None if the call describes none.

    Raises:
        SourceError: a part of it is damaged.
        LimitError: its parts, which may be there many times, cost more than the budget has left.
    """
    match call.args:
        case (_, Global() as owner, (_, dtype, size, *_), dict() as state, *_) if depth < _MAX_DEPTH:
            pass
        case _:
            return None
    budget.spend(CONTAINER + STEP * len(state))
    parts: dict[str, Array | Composite] = {}
    values: dict[str, object] = {}
    for key, value in state.items():
        if not isinstance(key, str):
            continue
        part = _part(read, value, budget, depth)
        if part is None:
            values[key] = _value(value)
        else:
            parts[key] = part
    named = dtype_of_torch(dtype.name) if isinstance(dtype, Global) and dtype.module == "torch" else None
    composite = Composite(str(owner), _sizes(size), named, parts, values)
    return Packed(composite, NotDense("wrapper", f"a tensor subclass without data of its own ({shown(owner)})"))


def _part(read: Read, value: object, budget: Budget, depth: int) -> Array | Composite | None:
    if not isinstance(value, Call):
        return None
    if value.args and is_wrapper(value.args[0]):
        inner = read_composite(read, value, budget, depth + 1)
        return None if inner is None else inner.composite
    found = read(value)
    return found.array if isinstance(found, Dense) else None


def _value(value: object) -> object:
    """Return a plain value; a member of an enumeration as the value it has, a class or type by its name."""
    if isinstance(value, Call) and len(value.args) == 1 and isinstance(value.args[0], int | str):
        return value.args[0]
    return str(value) if isinstance(value, Global | Call) else value


def _sizes(value: object) -> tuple[int, ...]:
    if isinstance(value, Call) and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, list | tuple) or not all(type(size) is int and size >= 0 for size in value):
        return ()
    return tuple(value)
