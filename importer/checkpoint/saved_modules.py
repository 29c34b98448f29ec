"""Whole saved modules (`torch.save(model)`): the entries their `state_dict()` would have, their classes and attributes.

The classes themselves are not needed: what a module holds stands in its state under `_parameters`, `_buffers` and
`_modules`, in every release. TorchScript archives keep all attributes alike; their code records tell which is what.

Format facts: `Module._save_to_state_dict` and `Module.state_dict` of torch/nn/modules/module.py: parameters, then
persistent buffers, then children; None is left out; a module reachable by two names counts under both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from importer.budgets import STEP, Budget
from importer.checkpoint.known_objects import persistent_object
from importer.checkpoint.structures import attributes, elements, is_mapping, items
from importer.checkpoint.vocabulary import qualified_name
from importer.containers.base import Resolver, ScriptClass
from importer.unpickling import Call, Global, PersistentId

__all__ = ["ModuleReader", "SavedModule"]

_MANGLING = re.compile(r"___torch_mangle_\d+\.")
_PACKED_OBJECTS = "__torch__.torch.classes."
_LONGEST_ATTRIBUTE = 64
_SCALARS = (bool, int, float, str, type(None))

_Entries = tuple[tuple[object, object], ...]


@dataclass(frozen=True, slots=True)
class SavedModule:
    """A module of a saved model.

    Attributes:
        class_name: qualified name of its class.
        tensors: parameters and persistent buffers by name, in order, None left out.
        children: submodules by name, in order, None left out.
        attributes: plain attributes that say how it was built (`norm_first`, `eps`...).
    """

    class_name: str
    tensors: _Entries
    children: _Entries
    attributes: Mapping[str, object]


class ModuleReader:
    """Tells modules from other objects and reads what they hold."""

    __slots__ = ("_budget", "_known", "_resolve", "_script")

    def __init__(
        self, resolve: Resolver, script: Mapping[str, ScriptClass] | None, budget: Budget | None = None
    ) -> None:
        self._resolve = resolve
        self._script = script or {}
        self._budget = Budget() if budget is None else budget
        self._known: dict[Call, SavedModule | None] = {}

    def read(self, call: Call) -> SavedModule | None:
        """Return the module a call stands for, or None for any other object; the same one wherever it is used.

        Raises:
            LimitError: there is more to it than the budget has left for.
        """
        if call not in self._known:
            self._budget.spend(STEP * (1 + _held(call.state)))
            self._known[call] = self._read(call)
        return self._known[call]

    def _read(self, call: Call) -> SavedModule | None:
        state: Mapping[object, object]
        match call.callable, call.args:
            case Global("torch._dynamo.eval_frame", "OptimizedModule"), (inner, *_):
                return SavedModule(self.class_name(call), (), (("_orig_mod", inner),), {})
            case Global("torch.fx.graph_module"), (dict() as body, *_):
                state = body  # the attributes are an argument, beside the code to rebuild the class from
            case _:
                state = attributes(call)
        name = self.class_name(call)
        if (persistent := persistent_object(call)) is not None:
            name, state = persistent
        if "_modules" in state and "_parameters" in state:
            return _eager(name, state)
        script = self._script.get(str(call.callable)) if self._script else None
        # A state that is no mapping is that of a `__getstate__`: packed weights, whose names are made by code.
        return None if script is None or not is_mapping(call.state) else self._scripted(script, state)

    def class_name(self, call: Call) -> str:
        """Return the qualified name of the class an object would have, as far as the pickle says."""
        node: object = call.callable
        if isinstance(node, Global) and node.module in {"copyreg", "copy_reg"} and call.args:
            node = call.args[0]
        if isinstance(node, PersistentId):
            node = self._resolve(node)
        if isinstance(node, Call):
            node = qualified_name(node)
        return str(node) if isinstance(node, Global) else "unknown"

    def _scripted(self, script: ScriptClass, state: Mapping[object, object]) -> SavedModule:
        """Read a module of TorchScript; before 1.6, all tensors that are no parameters count as buffers."""
        parameters = [entry for entry in state.items() if entry[0] in script.parameters]
        children = [entry for entry in state.items() if self._is_part(entry[1])]
        if script.buffers is None:
            others = {name for name, _ in (*parameters, *children)}
            buffers = [(name, value) for name, value in state.items() if name not in others and _is_tensor_call(value)]
        else:
            buffers = [entry for entry in state.items() if entry[0] in script.buffers]
        return SavedModule(
            _MANGLING.sub("", script.name).removeprefix("__torch__."),
            _present((*parameters, *buffers)),
            _present(children),
            _plain_attributes(state),
        )

    def _is_part(self, value: object) -> bool:
        """Whether an attribute is a module, or one of torch's own objects that hold packed weights."""
        if not isinstance(value, Call):
            return False
        name = str(value.callable)
        return name in self._script or name.startswith(_PACKED_OBJECTS)


def _held(state: object) -> int:
    """Return how many attributes a state holds."""
    parts = state if isinstance(state, tuple) else (state,)
    return sum(len(part) for part in parts if isinstance(part, dict))


def _eager(name: str, state: Mapping[object, object]) -> SavedModule:
    """Read a module of Python. Releases before 1.6 have no record of buffers that are not persistent."""
    volatile = {entry for entry in elements(state.get("_non_persistent_buffers_set")) if isinstance(entry, str)}
    buffers = (entry for entry in items(state.get("_buffers")) if entry[0] not in volatile)
    return SavedModule(
        name,
        _present((*items(state["_parameters"]), *buffers)),
        _present(items(state["_modules"])),
        _plain_attributes(state),
    )


def _is_tensor_call(value: object) -> bool:
    """Whether a value of a TorchScript archive is a tensor."""
    return isinstance(value, Call) and isinstance(value.callable, Global) and value.callable.module == "torch._utils"


def _present(entries: Iterable[tuple[object, object]]) -> _Entries:
    """Leave out what is None: parameters that are switched off, children that were removed."""
    return tuple(entry for entry in entries if entry[1] is not None)


def _plain_attributes(state: Mapping[object, object]) -> dict[str, object]:
    """Return the public attributes that are numbers, texts or short tuples of them."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in state.items()
        if isinstance(name, str) and not name.startswith("_") and _is_plain(value)
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= _LONGEST_ATTRIBUTE and all(isinstance(item, _SCALARS) for item in value)
    return isinstance(value, _SCALARS)
