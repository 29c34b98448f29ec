"""The walk: dotted names, what is taken down, and every bound on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from importer.checkpoint.walking import WalkedTree, walk
from importer.containers import Resolved
from importer.errors import LimitError, MissingFileError
from importer.limits import DEFAULT_LIMITS
from importer.unpickling import PersistentId, Unpickled, unpickle
from tests.builders.pickles import call, encode, glob, module, ordered, parameter, storage, tensor
from tests.checkpoint.conftest import WHERE, branches, container, walked
from tests.checkpoint.test_numpy_values import ARRAYS, array_call


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"a": {"b": tensor()}, "c": tensor()}, ["a.b", "c"]),
        ([tensor(), {"x": tensor()}], ["0", "1.x"]),
        ((tensor(), 1), ["0"]),
        ({3: tensor(), b"\xe9": tensor(), glob("m.F"): tensor()}, ["3", "é", "m.F"]),
        (ordered({"a.b": parameter(tensor())}), ["a.b"]),
        (call("collections.defaultdict", glob("builtins.list"), entries={"a": tensor()}), ["a"]),
        (call("builtins.list", [tensor()]), ["0"]),
        (call("collections.deque", (), 3, elements=[tensor()]), ["0"]),
        ({"a": call("torch.jit._pickle.restore_type_tag", {"b": tensor()}, "Dict[str, Tensor]")}, ["a.b"]),
        (
            {
                "a": call(
                    "torch.jit._pickle.restore_type_tag", call("torch.jit._pickle.build_tensorlist", [tensor()]), ""
                )
            },
            ["a.0"],
        ),
        (call("m.Dict", entries={"a": tensor()}, state={"b": tensor()}), ["a", "b"]),
        (call("m.Thing", tensor(), [tensor()], 5, state=([tensor()], 1, 2)), ["0", "1.0", "state.0.0"]),
        (call("m.Thing", kwargs={"k": tensor()}), ["k"]),
        (call("m.List", elements=[tensor()]), ["0"]),
        (tensor(), ["tensor"]),
        ({}, []),
        (None, []),
    ],
    ids=lambda item: repr(item)[:50],
)
def test_names_are_keys_and_positions_joined_by_dots(value: object, names: list[str]) -> None:
    assert list(walked(value).tensors) == names


def test_a_name_given_to_the_whole_tree_stands_before_all() -> None:
    assert list(walked({"a": tensor()}, name="part.00").tensors) == ["part.00.a"]


def test_keys_that_read_alike_are_both_listed() -> None:
    findings = walked({"1": tensor(), 1: tensor((3,)), b"1": array_call(ARRAYS[0])})
    assert list(findings.tensors) == ["1", "1#2"]
    assert findings.tensors["1#2"].shape == (3,)
    assert list(findings.arrays) == ["1#3"]
    assert len(findings.notes) == 2


def test_modules_give_the_names_of_their_state_dict_and_their_types() -> None:
    linear = module(parameters={"weight": tensor(), "bias": None}, eps=0.5)
    findings = walked({"model": module("m.Net", children={"a": linear, "b": linear}, mask=tensor())})
    assert list(findings.tensors) == ["model.a.weight", "model.b.weight"]
    assert {tensor.module_type for tensor in findings.tensors.values()} == {"torch.nn.modules.linear.Linear"}
    assert [(path, entry.class_name) for path, entry in findings.modules.items()] == [
        ("model", "m.Net"),
        ("model.a", "torch.nn.modules.linear.Linear"),
        ("model.b", "torch.nn.modules.linear.Linear"),
    ]
    assert findings.modules["model.a"].attributes == {"training": True, "eps": 0.5}


def test_plain_values_are_kept_by_name() -> None:
    scalar = call("numpy.core.multiarray.scalar", call("numpy.dtype", "u1", state=(3, "|")), b"\x07")
    findings = walked(
        {
            "epoch": 3,
            "lr": [0.5, None],
            "note": b"\xe9",
            "act": glob("m.relu"),
            "n": scalar,
            "on": True,
            "raw": bytearray(b"r"),
        }
    )
    assert findings.values == {
        "epoch": 3,
        "lr.0": 0.5,
        "lr.1": None,
        "note": "é",
        "act": "m.relu",
        "n": 7,
        "on": True,
        "raw": "r",
    }


def test_long_texts_are_cut_and_many_values_left_out() -> None:
    limits = replace(DEFAULT_LIMITS, max_value_length=3, max_values=2)
    assert walked(["abcdef", "abc", "more"], limits=limits).values == {"0": "abc…", "1": "abc"}


def test_numpy_arrays_are_listed_apart() -> None:
    findings = walked({"rng": ("MT19937", array_call(ARRAYS[0])), "w": tensor()})
    assert list(findings.tensors) == ["w"]
    assert [(name, array.shape) for name, array in findings.arrays.items()] == [("rng.1", (2, 3))]


def test_what_is_no_dense_tensor_is_reported_by_name() -> None:
    objects = call("numpy.core.multiarray._reconstruct", state=(1, (1,), "O", False, []))
    meta = call("torch._utils._rebuild_meta_tensor_no_storage", glob("torch.float32"), (2,), (1,), False)
    findings = walked({"ghost": meta, "objects": objects, "bare": storage()})
    assert [(entry.name, entry.kind) for entry in findings.unsupported] == [
        ("ghost", "meta"),
        ("objects", "numpy"),
        ("bare", "storage"),
    ]


def test_a_class_saved_with_its_source_is_a_plain_value() -> None:
    assert walked({"net": PersistentId(("module", glob("m.Net"), "", ""))}).values == {"net": "m.Net"}


def test_every_damaged_tensor_is_named() -> None:
    findings = walked(
        {
            "a": tensor(of=storage("7")),
            "b": tensor(offset=9),
            "c": tensor(),
            "d": call("numpy.core.multiarray._reconstruct"),
            "e": storage("7"),
        }
    )
    assert [name for name, _ in findings.damaged] == ["a", "b", "d", "e"]
    with pytest.raises(MissingFileError, match=r"tensor 'a', 'b', 'd', 'e': record 7 does not exist"):
        findings.raise_damage()


def test_many_damaged_tensors_are_counted() -> None:
    findings = walked({str(number): tensor(of=storage("7")) for number in range(25)})
    with pytest.raises(MissingFileError, match="and 5 more"):
        findings.raise_damage()


def test_without_damage_nothing_is_raised() -> None:
    walked({"a": tensor()}).raise_damage()


def cycle() -> object:
    thing = call("m.Trainer", state={})
    inner = {"weights": tensor()}
    thing.state = {"model": inner}
    return {"trainer": thing, "again": thing}


def test_an_object_met_twice_is_listed_twice() -> None:
    assert list(walked(cycle()).tensors) == ["trainer.model.weights", "again.model.weights"]


def test_a_container_within_itself_is_entered_once() -> None:

    # A dict that holds a tensor and itself.
    pickle = b"}q\x00(X\x01\0\0\0a" + encode(tensor()) + b"X\x01\0\0\0bh\x00u."
    findings = WalkedTree()
    walk(replace(container(None), tree=unpickle(pickle, where=WHERE)), DEFAULT_LIMITS, findings)
    assert list(findings.tensors) == ["a"]


def test_a_bound_that_a_storage_passes_ends_the_walk() -> None:

    def inflates(_pid: PersistentId) -> Resolved:
        raise LimitError("too much", limit="max_inflation", allowed=1, actual=2, how="Stop.")

    with pytest.raises(LimitError, match="max_inflation"):
        walk(replace(container(tensor()), resolve=inflates), DEFAULT_LIMITS, WalkedTree())


def test_sizes_nested_deeper_than_python_prints_are_an_error_as_well() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    damaged = [call("torch._utils._rebuild_tensor", storage(), 0, deep, deep)]
    findings = WalkedTree()
    tree = Unpickled(damaged, 1 << 20, (), (), ())
    walk(replace(container(None), tree=tree), DEFAULT_LIMITS, findings)
    assert [name for name, _ in findings.damaged] == ["0"]


def nested(depth: int) -> object:
    value: object = tensor()
    for _ in range(depth):
        value = [value]
    return value


def doubled(times: int) -> bytes:
    """Return a pickle of a list of lists, each of which holds the one below twice."""
    return b"]" + b"q\x00h\x00h\x00\x86" * times + b"."


LONG = "n" * 50


@pytest.mark.parametrize(
    ("limit", "allowed", "value"),
    [
        ("max_nesting", 20, nested(21)),
        ("max_name_length", 40, {LONG: tensor()}),
        ("max_name_length", 40, {LONG: {"a": 1}}),
        ("max_tensors", 2, [tensor(), tensor(), tensor()]),
        ("max_tensor_bytes", 23, [tensor()]),
    ],
)
def test_a_bound_is_held(limit: str, allowed: int, value: object) -> None:
    with pytest.raises(LimitError) as caught:
        walked(value, limits=replace(DEFAULT_LIMITS, **{limit: allowed}))
    assert caught.value.limit == limit
    assert caught.value.allowed == allowed
    assert caught.value.actual > allowed


def test_a_tensor_repeated_beyond_any_memory_is_refused() -> None:
    with pytest.raises(LimitError, match="max_tensor_bytes"):
        walked({"mask": tensor((1 << 23, 1 << 23), stride=(0, 0))})


def test_parts_used_again_and_again_are_refused_in_time_that_the_file_bounds() -> None:

    tree = unpickle(doubled(60), where=WHERE)
    with pytest.raises(LimitError, match="max_cost_per_byte"):
        walk(replace(container(None), tree=tree), DEFAULT_LIMITS, WalkedTree())


def test_long_names_of_many_tensors_are_refused() -> None:
    limits = replace(DEFAULT_LIMITS, free_cost=1_000, max_cost_per_byte=0)
    with pytest.raises(LimitError, match="max_cost_per_byte"):
        walked({"abcdef": tensor(), "ghijkl": tensor()}, limits=limits)


def test_the_shape_of_the_tree_is_counted() -> None:
    top = branches({"a": tensor(), "b": {"c": tensor(), "d": [tensor()]}, "e": {}})
    assert (top.kind, top.direct, top.total) == ("mapping", 1, 3)
    assert [(child.path, child.kind, child.direct, child.total) for child in top.children] == [
        ("b", "mapping", 1, 2),
    ]
    assert [child.path for child in top.children[0].children] == ["b.d"]


def test_a_tree_without_containers_has_a_shape_as_well() -> None:
    assert branches(tensor()).total == 1
