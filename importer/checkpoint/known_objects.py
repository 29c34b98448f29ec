"""Third-party objects around tensors whose insides are known: what stands for them, so that names are the ones users know.

    TensorDict              its entries, not the attributes of its implementation
    StyleGAN's persistence  `_reconstruct_persistent_obj(meta)`: source text, class name and `state`, the module's `__dict__`
    EasyDict and kin        attributes that repeat the entries are left out
    arrays of dill          `_create_array(function, arguments, state)`: what numpy itself would have written

Not here: modules (`saved_modules`), and objects of classes nobody knows, of which everything is looked at (`walking`).

Format facts: tensordict/_reductions.py and `TensorDict.__getstate__` of pytorch/tensordict; torch_utils/persistence.py of
NVlabs/stylegan3; `EasyDict.__setattr__` of the easydict package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from importer.checkpoint.structures import attributes, is_mapping, items
from importer.unpickling import Call, Global

__all__ = [
    "CONSOLIDATED",
    "array_of_dill",
    "entries_of_tensordict",
    "new_attributes",
    "persistent_object",
    "repeats_entry",
]

CONSOLIDATED = frozenset(
    Global("tensordict._reductions", f"_rebuild_tensordict_files{kind}") for kind in ("", "_consolidated", "_shared")
)
"""Calls that stand for a TensorDict of which the bytes were put together (`consolidate()`): names and places only."""


def entries_of_tensordict(call: Call) -> object | None:
    """Return the mapping or list that holds the entries of a TensorDict, None for any other object."""
    state: Mapping[object, object] = attributes(call)
    match call.callable, call.args:
        case Global(module=module, name="_make_td"), (_, dict() as given, *_) if module.startswith("tensordict."):
            state = given
        case Global(module=module), _ if module.startswith("tensordict"):
            pass
        case _:
            return None
    for key in ("_tensordict", "_td"):
        if is_mapping(held := state.get(key)):
            return held
    stacked = state.get("tensordicts")
    return stacked if isinstance(stacked, list | tuple) else None


def persistent_object(call: Call) -> tuple[str, Mapping[object, object]] | None:
    """Return class name and attributes of an object that was saved with the source of its class, None for any other."""
    match call.callable, call.args:
        case Global(module=module, name="_reconstruct_persistent_obj"), (Call() | dict() as meta, *_) if (
            module.split(".")[-1] == "persistence"
        ):
            facts = {**attributes(meta), **dict(items(meta))} if isinstance(meta, Call) else meta
        case _:
            return None
    name, state = facts.get("class_name"), facts.get("state")
    if isinstance(state, Call) and is_mapping(state):
        state = dict(items(state))
    return (name if isinstance(name, str) else "unknown", state) if isinstance(state, dict) else None


def array_of_dill(call: Call) -> Call | None:
    """Return the call numpy writes for an array that dill has wrapped, None for any other call."""
    match call.callable, call.args:
        case Global(module="dill._dill" | "dill.dill", name="_create_array"), (
            Global() as function,
            tuple() as args,
            state,
            *_,
        ):
            inner = Call(function, args)
            inner.state = state
            return inner
        case _:
            return None


def new_attributes(call: Call) -> Iterator[tuple[object, object]]:
    """Yield the attributes of an object that do not repeat one of its entries."""
    entries = call.entries or {}
    for name, value in attributes(call).items():
        if name not in entries or entries[name] is not value:
            yield name, value


def repeats_entry(call: Call, argument: object) -> bool:
    """Whether an argument is a pair that stands among the entries as well, as addict's dictionaries are pickled."""
    match argument:
        case (str() as key, value):
            held = call.entries or {}
            return key in held and held[key] is value
        case _:
            return False
