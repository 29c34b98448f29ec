"""Whole saved modules: entries and order of `state_dict()`, classes, attributes; TorchScript by its code records."""

from __future__ import annotations

import pytest

from importer.checkpoint.saved_modules import ModuleReader, SavedModule
from importer.containers import ScriptClass
from importer.unpickling import Call, PersistentId
from tests.builders.pickles import call, glob, module, ordered, parameter, tensor
from tests.checkpoint.conftest import resolve

WEIGHT, BIAS, MEAN = tensor(), tensor((3,)), tensor((2,))


def read(node: Call) -> SavedModule | None:
    return ModuleReader(resolve, None).read(node)


def saved(node: Call) -> SavedModule:
    found = read(node)
    assert found is not None
    return found


def test_tensors_come_in_the_order_of_a_state_dict() -> None:
    found = saved(
        module(buffers={"mean": MEAN}, parameters={"weight": WEIGHT, "bias": BIAS}, children={"0": call("m.F")})
    )
    assert [name for name, _ in found.tensors] == ["weight", "bias", "mean"]
    assert [name for name, _ in found.children] == ["0"]


def test_what_is_switched_off_is_left_out() -> None:
    found = saved(module(parameters={"weight": WEIGHT, "bias": None}, buffers={"mean": None}, children={"0": None}))
    assert [name for name, _ in found.tensors] == ["weight"]
    assert found.children == ()


@pytest.mark.parametrize(
    "volatile",
    [{"mean"}, call("__builtin__.set", ["mean"]), call("builtins.set", ["mean", ["no name"]])],
    ids=["set", "set of protocol 2", "set with nonsense"],
)
def test_buffers_that_are_not_persistent_are_left_out(volatile: object) -> None:
    node = module(buffers={"mean": MEAN, "kept": MEAN}, _non_persistent_buffers_set=volatile)
    assert [name for name, _ in saved(node).tensors] == ["kept"]


def test_ordered_dicts_of_old_releases_are_read() -> None:
    state = {
        "_parameters": ordered({"weight": parameter(WEIGHT)}),
        "_buffers": ordered(),
        "_modules": ordered({"0": module()}),
    }
    found = saved(call("torch.nn.modules.container.Sequential", state=state))
    assert [name for name, _ in (*found.tensors, *found.children)] == ["weight", "0"]


def test_a_compiled_module_holds_the_original_one_as_its_state_dict_says() -> None:
    inner = module(parameters={"weight": WEIGHT})
    found = saved(call("torch._dynamo.eval_frame.OptimizedModule", inner, call("torch._dynamo.eval_frame.Context")))
    assert found.children == (("_orig_mod", inner),)
    assert found.tensors == ()


def test_a_traced_module_has_its_attributes_among_its_arguments() -> None:
    body = {"_parameters": {"weight": WEIGHT}, "_buffers": {}, "_modules": {}, "training": False}
    found = saved(call("torch.fx.graph_module.reduce_graph_module", body, "import torch"))
    assert [name for name, _ in found.tensors] == ["weight"]
    assert found.attributes == {"training": False}


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (module("torch.nn.modules.linear.Linear"), "torch.nn.modules.linear.Linear"),
        (call("copy_reg._reconstructor", glob("m.Net"), glob("__builtin__.object"), None), "m.Net"),
        (call(PersistentId(("module", glob("m.Net"), "net.py", "class Net: ..."))), "m.Net"),
        (call(call("builtins.getattr", glob("m.Outer"), "Net")), "m.Outer.Net"),
        (call(call("m.make")), "unknown"),
    ],
    ids=["plain", "protocol 0", "with source", "nested", "computed"],
)
def test_the_class_is_named_as_far_as_the_pickle_says(node: Call, name: str) -> None:
    assert ModuleReader(resolve, None).class_name(node) == name


def test_plain_public_attributes_are_kept() -> None:
    node = module(
        eps=1e-5,
        affine=True,
        kernel_size=(3, 3),
        dims=[1, 2],
        mode="zeros",
        bias=None,
        _private=1,
        weight=tensor(),
        names=["a", ["b"]],
        long=[0] * 100,
    )
    assert saved(node).attributes == {
        "training": True,
        "eps": 1e-5,
        "affine": True,
        "kernel_size": (3, 3),
        "dims": (1, 2),
        "mode": "zeros",
        "bias": None,
    }


@pytest.mark.parametrize(
    "node",
    [call("m.Thing"), call("m.Thing", state={"_modules": {}}), call("m.Thing", state=(1, 2)), ordered({"_modules": 1})],
    ids=["no state", "half a module", "tuple", "dict"],
)
def test_other_objects_are_no_modules(node: Call) -> None:
    assert read(node) is None


SCRIPT = {
    "__torch__.Net": ScriptClass("__torch__.Net", frozenset({"scale"}), frozenset({"mask"}), {}),
    "__torch__.old.Net": ScriptClass("__torch__.old.Net", frozenset({"scale"}), None, {}),
    "__torch__.torch.nn.modules.linear.___torch_mangle_12.Linear": ScriptClass(
        "__torch__.torch.nn.modules.linear.___torch_mangle_12.Linear", frozenset({"weight", "bias"}), frozenset(), {}
    ),
}
LINEAR = call("__torch__.torch.nn.modules.linear.___torch_mangle_12.Linear", state={"weight": WEIGHT, "bias": None})
SCRIPT_STATE = {
    "mask": MEAN,
    "table": BIAS,
    "fc": LINEAR,
    "scale": WEIGHT,
    "eps": 0.5,
    "weights": call("torch.jit._pickle.build_tensorlist", [WEIGHT]),
}


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("Net", ["scale", "mask"]), ("old.Net", ["scale", "mask", "table"])],
    ids=["listed", "before 1.6"],
)
def test_script_modules_are_told_by_their_code_records(name: str, tensors: list[str]) -> None:
    found = ModuleReader(resolve, SCRIPT).read(call(f"__torch__.{name}", state=SCRIPT_STATE))
    assert found is not None
    assert found.class_name == name
    assert [key for key, _ in found.tensors] == tensors
    assert [key for key, _ in found.children] == ["fc"]
    assert found.attributes == {"eps": 0.5}


def test_manglings_are_removed_from_script_classes() -> None:
    found = ModuleReader(resolve, SCRIPT).read(LINEAR)
    assert found is not None
    assert found.class_name == "torch.nn.modules.linear.Linear"
    assert [key for key, _ in found.tensors] == ["weight"]


def test_a_script_module_that_packs_its_weights_is_no_module_with_names() -> None:
    packed = call("__torch__.Net", state=(WEIGHT, BIAS, True))
    assert ModuleReader(resolve, SCRIPT).read(packed) is None


def test_objects_that_hold_packed_weights_count_as_parts_of_a_script_module() -> None:
    packed = call("__torch__.torch.classes.quantized.LinearPackedParamsBase", state=(WEIGHT, BIAS))
    other = call("__torch__.Vocabulary", state={"size": 3})
    found = ModuleReader(resolve, SCRIPT).read(call("__torch__.Net", state={"packed": packed, "other": other}))
    assert found is not None
    assert found.children == (("packed", packed),)
