"""Objects of third-party classes whose insides are known, bytes that are pickles, and weights that are not all there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from importer.checkpoint.contents import Tensor
from importer.checkpoint.partial_weights import refuse_partial
from importer.checkpoint.walking import WalkedTree, walk
from importer.containers import PickleContainer
from importer.errors import UnsupportedError
from importer.limits import DEFAULT_LIMITS
from importer.unpickling import Call, unpickle
from tests.builders.pickles import call, encode, glob, ordered, parameter, tensor
from tests.checkpoint.conftest import WHERE, resolve, walked
from tests.checkpoint.test_numpy_values import ARRAYS, array_call


def tensordict(entries: dict[str, object]) -> Call:
    state = {"_tensordict": entries, "_device": None, "_batch_size": call("torch.Size", (2,)), "_td_dim_names": None}
    return call("tensordict._reductions._make_td", glob("tensordict._td.TensorDict"), state)


@pytest.mark.parametrize(
    "value",
    [
        tensordict({"a": tensor(), "n": tensordict({"b": tensor()})}),
        call(
            "tensordict._td.TensorDict",
            state={"_tensordict": {"a": tensor(), "n": {"b": tensor()}}, "_batch_size": (2,)},
        ),
        call("tensordict.tensordict.TensorDict", state={"_tensordict": {"a": tensor(), "n": {"b": tensor()}}}),
        call("tensordict._td.TensorDict", state={"_tensordict": ordered({"a": tensor(), "n": {"b": tensor()}})}),
    ],
    ids=["reduced", "object", "old module", "ordered"],
)
def test_the_entries_of_a_tensordict_are_named_by_their_keys(value: object) -> None:
    assert list(walked(value).tensors) == ["a", "n.b"]
    assert list(walked({"model": value}).tensors) == ["model.a", "model.n.b"]


def test_a_lazy_stack_of_tensordicts_is_a_list() -> None:
    value = call(
        "tensordict._lazy.LazyStackedTensorDict", state={"tensordicts": [tensordict({"a": tensor()})], "stack_dim": 0}
    )
    assert list(walked(value).tensors) == ["0.a"]


def test_a_tensordict_that_contains_itself_ends() -> None:
    inner = b"}q\x01X\x0b\x00\x00\x00_tensordictctensordict._reductions\n_make_td\nctensordict._td\nTensorDict\nh\x01\x86Rq\x02sh\x02"
    tree = unpickle(b"\x80\x02" + inner + b".", where=WHERE)
    held = PickleContainer(kind="zip", paths=("model.pt",), tree=tree, resolve=resolve)
    findings = WalkedTree()
    walk(held, DEFAULT_LIMITS, findings)
    assert not findings.tensors


def test_a_consolidated_tensordict_is_reported_and_not_read_as_bytes() -> None:
    rebuild = "tensordict._reductions._rebuild_tensordict_files_consolidated"
    found = walked({"td": call(rebuild, {"leaves": {}}, tensor()), "w": tensor()})
    assert list(found.tensors) == ["w"]
    assert [(entry.name, entry.kind) for entry in found.unsupported] == [("td", "tensordict")]
    (alone,) = walked(call(rebuild, {}, tensor())).unsupported
    assert alone.name == "tensordict"


def test_an_object_of_another_package_keeps_its_attributes() -> None:
    assert list(walked(call("mine.TensorDict", state={"_tensordict": {"a": tensor()}})).tensors) == ["_tensordict.a"]


def persistent(state: Mapping[str, object], name: str = "FC", module: str = "torch_utils.persistence") -> Call:
    meta = {"type": "class", "version": 6, "module_src": "class FC: ...", "class_name": name, "state": state}
    return call(f"{module}._reconstruct_persistent_obj", call("dnnlib.util.EasyDict", entries=meta))


def linear() -> dict[str, object]:
    parts = {"weight": parameter(tensor()), "bias": parameter(tensor((3,)))}
    return {
        "_parameters": parts,
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_modules": {},
        "in_features": 2,
    }


@pytest.mark.parametrize("module", ["torch_utils.persistence", "training.torch_utils.persistence"])
def test_modules_saved_with_their_source_are_modules(module: str) -> None:
    mapping = {
        "_parameters": {},
        "_buffers": {"w_avg": tensor((2,)), "noise": tensor((1,))},
        "_non_persistent_buffers_set": {"noise"},
        "_modules": {"fc0": persistent(linear(), module=module)},
    }
    found = walked({"G": persistent(mapping, "Mapping", module), "G_ema": None})
    assert list(found.tensors) == ["G.w_avg", "G.fc0.weight", "G.fc0.bias"]
    assert {path: part.class_name for path, part in found.modules.items()} == {"G": "Mapping", "G.fc0": "FC"}
    assert found.modules["G.fc0"].attributes == {"in_features": 2}


def test_a_plain_object_saved_with_its_source_keeps_its_attributes() -> None:
    assert list(walked({"o": persistent({"table": tensor()})}).tensors) == ["o.0.state.table"]


def test_attributes_that_repeat_the_entries_are_not_listed_twice() -> None:
    one = encode(tensor())
    easy = (
        b"\x80\x02ceasydict\nEasyDict\n)\x81(X\x01\x00\x00\x00a"
        + one
        + b"q\x07u}(X\x01\x00\x00\x00ah\x07X\x01\x00\x00\x00b"
        + one
        + b"ub."
    )
    held = PickleContainer(kind="zip", paths=("model.pt",), tree=unpickle(easy, where=WHERE), resolve=resolve)
    findings = WalkedTree()
    walk(held, DEFAULT_LIMITS, findings)
    assert list(findings.tensors) == ["a", "b"]


def test_an_array_that_dill_has_wrapped_is_an_array() -> None:
    plain = array_call(ARRAYS[0])
    wrapped = call("dill._dill._create_array", plain.callable, plain.args, plain.state, None)
    found = walked({"a": plain, "b": wrapped}).arrays
    assert found["a"].shape == found["b"].shape
    assert found["a"].numpy().tobytes() == found["b"].numpy().tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00N.",
        call("_codecs.encode", "\x80\x02}q\x00.", "latin1"),
    ],
    ids=["bytes", "bytes of protocol 2"],
)
def test_a_pickle_within_the_pickle_is_remarked_on(data: object) -> None:
    notes = walked({"worker": data, "w": tensor()}).notes
    assert len(notes) == 1
    assert "'worker' holds a pickle of its own" in notes[0]


def test_keys_of_bytes_are_text_in_every_protocol() -> None:
    found = walked(
        {
            call("_codecs.encode", "weight", "latin1"): tensor(),
            b"sub": {call("_codecs.encode", "\xe9", "latin1"): tensor()},
        }
    )
    assert list(found.tensors) == ["weight", "sub.é"]


def test_pairs_that_repeat_the_entries_are_not_listed_twice() -> None:
    one = encode(tensor())
    pair = b"X\x01\x00\x00\x00a" + one + b"q\x07\x86"
    addict = b"\x80\x02caddict.addict\nDict\n" + pair + b"\x85\x81X\x01\x00\x00\x00ah\x07s."
    held = PickleContainer(kind="zip", paths=("model.pt",), tree=unpickle(addict, where=WHERE), resolve=resolve)
    findings = WalkedTree()
    walk(held, DEFAULT_LIMITS, findings)
    assert list(findings.tensors) == ["a"]


def test_other_bytes_are_values() -> None:
    found = walked({"id": b"\x80abc", "key": call("_codecs.encode", "\xe9", "latin1")})
    assert not found.notes
    assert set(found.values) == {"id", "key"}


@pytest.mark.parametrize(("name", "kind"), [("DTensor", "dtensor"), ("ShardedTensor", "sharded")])
def test_one_ranks_shard_says_that_weights_are_to_be_gathered(name: str, kind: str) -> None:
    wrapper = (glob(f"torch.distributed.tensor.{name}"), glob("torch.float32"), (4, 3), (3, 1), 0)
    value = call(
        "torch._tensor._rebuild_from_type_v2",
        glob("torch._utils._rebuild_wrapper_subclass"),
        wrapper[0],
        wrapper,
        {"_local_tensor": tensor()},
    )
    (entry,) = walked({"w": value}).unsupported
    assert (entry.name, entry.kind) == ("w", kind)
    assert "full_state_dict" in entry.reason


def tensors_of(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return dict(walked({name: tensor(shape) for name, shape in shapes.items()}).tensors)


def test_weights_that_zero_3_left_empty_are_refused_with_the_way_on() -> None:
    found = tensors_of({"m.a.weight": (0,), "m.a.bias": (0,), "m.inv_freq": (2,)})
    with pytest.raises(UnsupportedError, match=r"2 of 2 parameters are empty.*ZeRO-3") as caught:
        refuse_partial(found, "m", WHERE)
    assert "zero_to_fp32.py" in caught.value.how


def test_flattened_parameters_of_fsdp_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="flattened by FSDP"):
        refuse_partial(tensors_of({"_fsdp_wrapped_module._flat_param": (6,), "scale": (1,)}), "", WHERE)


@pytest.mark.parametrize(
    "shapes",
    [
        {"a.weight": (2, 3), "a.bias": (0,)},
        {"a.weight": (0, 3), "b.weight": (0, 2)},
        {"step": (0,), "state": (0,)},
        {"flat_param": (2, 3)},
    ],
)
def test_whole_weights_pass(shapes: dict[str, tuple[int, ...]]) -> None:
    refuse_partial(tensors_of(shapes), "", WHERE)


def test_empty_tensors_beside_the_root_do_not_count() -> None:
    refuse_partial(
        tensors_of({"optim.a.weight": (0,), "optim.b.weight": (0,), "model.a.weight": (2, 3)}), "model", WHERE
    )
