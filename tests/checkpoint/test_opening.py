"""From a path to a checkpoint: every kind of container, roots on request, sets held against their index, bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from importer.arrays import from_bytes
from importer.checkpoint import opening
from importer.checkpoint.opening import open_checkpoint
from importer.containers import Opaque, Opened, SetContainer, Shard, TableContainer
from importer.dtypes import F32
from importer.errors import DangerousPickleError, LimitError, MissingFileError, UsageError
from importer.limits import DEFAULT_LIMITS
from tests.builders.pickles import call, dump, ordered, storage, tensor
from tests.builders.zips import Entry, build_zip
from tests.checkpoint.conftest import SIX_FLOATS, WHERE, container

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
FLOATS = storage(numel=6)


def write(path: Path, value: object, data: bytes = SIX_FLOATS) -> Path:
    """Write a checkpoint as torch lays it out, with one storage."""
    entries = [Entry("archive/data.pkl", dump(value)), Entry("archive/data/0", data), Entry("archive/version", b"3\n")]
    path.write_bytes(build_zip(entries))
    return path


def test_a_checkpoint_is_a_mapping_of_its_tensors(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write(tmp_path / "model.pt", ordered({"a.b": tensor(), "c": tensor((2,))})))
    assert list(checkpoint) == ["a.b", "c"]
    assert len(checkpoint) == 2
    assert "a.b" in checkpoint
    assert "x" not in checkpoint
    assert (checkpoint["c"].dtype, checkpoint["c"].shape, checkpoint["c"].nbytes) == (F32, (2,), 8)
    np.testing.assert_array_equal(checkpoint["a.b"].numpy(), VALUES)
    assert checkpoint.container == "zip"
    assert checkpoint.paths == (str(tmp_path / "model.pt"),)


def test_ties_are_groups_of_names(tmp_path: Path) -> None:
    value = {"a": tensor(), "b": tensor((6,)), "c": tensor(), "d": tensor((6,)), "e": tensor((3,))}
    assert open_checkpoint(write(tmp_path / "model.pt", value)).aliases == (("a", "c"), ("b", "d"))


def test_everything_beside_the_tensors_is_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 3}')
    path = write(
        tmp_path / "model.pt", {"state_dict": {"w": tensor()}, "epoch": 3, "model": call("m.Net"), "x": FLOATS}
    )
    checkpoint = open_checkpoint(path)
    assert checkpoint.root == "state_dict"
    assert checkpoint.root_candidates == ("state_dict",)
    assert checkpoint.values == {"epoch": 3}
    assert [(entry.name, entry.called) for entry in checkpoint.foreign_globals] == [("m.Net", True)]
    assert [entry.kind for entry in checkpoint.unsupported] == ["storage"]
    assert checkpoint.config == {"hidden_size": 3}
    assert checkpoint.config_path == str(tmp_path / "config.json")


@pytest.mark.parametrize("root", ["ema", "ema.", "state_dict", "", "nested.deep"])
def test_a_root_can_be_asked_for(tmp_path: Path, root: str) -> None:
    value = {"state_dict": {"w": tensor()}, "ema": {"w": tensor()}, "nested.deep": {"w": tensor()}}
    assert open_checkpoint(write(tmp_path / "model.pt", value), root=root).root == root.rstrip(".")


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"state_dict": {"w": tensor()}}, "'state_dict'"),
        ({"w": tensor()}, "the top"),
        ({"epoch": 1}, "none but the top"),
    ],
)
def test_a_root_that_holds_nothing_is_an_error_with_the_candidates(tmp_path: Path, value: object, places: str) -> None:
    with pytest.raises(UsageError, match=f"no tensor lies below 'other'.*{places}"):
        open_checkpoint(write(tmp_path / "model.pt", value), root="other")


def test_a_hostile_pickle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DangerousPickleError):
        open_checkpoint(write(tmp_path / "model.pt", {"w": tensor(), "x": call("os.system", "true")}))


def test_tensors_that_make_far_more_of_a_file_than_is_in_it_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt", {"w": tensor((1000,), stride=(0,))})
    assert len(open_checkpoint(path)) == 1
    with pytest.raises(LimitError, match="max_expansion") as caught:
        open_checkpoint(path, limits=replace(DEFAULT_LIMITS, free_expansion=0, max_expansion=1))
    assert caught.value.actual > 1
    assert len(open_checkpoint(path, limits=replace(DEFAULT_LIMITS, free_expansion=0, max_expansion=64))) == 1


def test_safetensors_come_under_their_own_names(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"b": VALUES, "a": VALUES}, path, metadata={"format": "pt"})
    checkpoint = open_checkpoint(path)
    assert sorted(checkpoint) == ["a", "b"]
    assert checkpoint.root == ""
    assert checkpoint.metadata == {"format": "pt"}
    np.testing.assert_array_equal(checkpoint["a"].numpy(), VALUES)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Write an index over two shards, one of which holds a tensor the index puts into the other one."""
    write(tmp_path / "one.bin", ordered({"a": tensor(), "b": tensor((2,))}))
    safetensors.numpy.save_file({"b": VALUES, "c": VALUES}, tmp_path / "two.safetensors")
    index = tmp_path / "pytorch_model.bin.index.json"
    weight_map = {"a": "one.bin", "b": "two.safetensors", "c": "two.safetensors"}
    index.write_text(json.dumps({"metadata": {"note": "x"}, "weight_map": weight_map}))
    return index


def test_a_sharded_set_is_one_checkpoint(sharded: Path) -> None:
    checkpoint = open_checkpoint(sharded)
    assert {name: tensor.shape for name, tensor in checkpoint.tensors.items()} == {
        "a": (2, 3),
        "b": (2, 3),
        "c": (2, 3),
    }
    assert checkpoint.unlisted == ("b@one.bin",)
    assert checkpoint.metadata == {"note": "x"}


def test_storages_of_two_files_with_the_same_key_are_not_tied(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.bin", ordered({name: tensor()}))
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "a.bin", "b": "b.bin"}}))
    checkpoint = open_checkpoint(index)
    assert list(checkpoint) == ["a", "b"]
    assert checkpoint.aliases == ()


def test_a_tensor_the_index_lists_and_no_file_has_is_an_error(sharded: Path) -> None:
    document = json.loads(sharded.read_text())
    document["weight_map"]["lost"] = "one.bin"
    sharded.write_text(json.dumps(document))
    with pytest.raises(MissingFileError, match=r"'lost@one\.bin'"):
        open_checkpoint(sharded)


def array(*shape: int) -> object:
    return from_bytes(bytes(4 * int(np.prod(shape))), F32, shape, WHERE)


def opened(monkeypatch: pytest.MonkeyPatch, container: TableContainer | SetContainer) -> None:
    """Let any path open as `container`."""
    monkeypatch.setattr(opening, "open_container", lambda *_: Opened(container, notes=("opened",)))


def test_a_table_keeps_opaque_entries_objects_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableContainer(
        kind="distributed",
        paths=("folder",),
        arrays={"model.w": array(2), "optimizer.w": array(2)},  # type: ignore[dict-item]
        opaque=(Opaque("q", "quantized", "blocks"),),
        objects={"epoch": container(3).tree, "args": container(call("m.Args", state={"lr": 0.5})).tree},
        scalars={"n": 1},
        param_ids={"w": 7},
        notes=("read",),
    )
    opened(monkeypatch, table)
    checkpoint = open_checkpoint("folder")
    assert list(checkpoint) == ["model.w", "optimizer.w"]
    assert checkpoint.root == "model"
    assert [entry.name for entry in checkpoint.unsupported] == ["q"]
    assert checkpoint.values == {"epoch": 3, "args.lr": 0.5}
    assert [entry.name for entry in checkpoint.foreign_globals] == ["m.Args"]
    assert (checkpoint.scalars, checkpoint.param_ids) == ({"n": 1}, {"w": 7})
    assert checkpoint.notes == ("read", "opened")


def test_slices_keep_equal_names_apart_by_their_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = tuple(
        Shard(f"{name}.pth", container({"w": tensor(), "n": FLOATS}), None, f"{name}.")
        for name in ("part.00", "part.01")
    )
    opened(monkeypatch, SetContainer(kind="slices", paths=("part.00.pth", "part.01.pth"), shards=shards))
    checkpoint = open_checkpoint("folder")
    assert list(checkpoint) == ["part.00.w", "part.01.w"]
    assert checkpoint.root == ""


def test_names_two_files_share_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.checkpoint.test_numpy_values import ARRAYS, array_call

    value = {"w": tensor(), "n": array_call(ARRAYS[0])}
    shards = (Shard("a", container(value)), Shard("b", container(value)))
    opened(monkeypatch, SetContainer(kind="sharded", paths=("index",), shards=shards))
    checkpoint = open_checkpoint("index")
    assert list(checkpoint) == ["w", "w#2"]
    assert checkpoint["w#2"].name == "w#2"
    assert list(checkpoint.arrays) == ["n", "n#2"]


def test_damaged_and_opaque_entries_count_as_present(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"lost": tensor(of=storage("7")), "bare": FLOATS}
    shard = Shard("a", container(value), frozenset({"lost", "bare"}))
    opened(monkeypatch, SetContainer(kind="sharded", paths=("index",), shards=(shard,)))
    with pytest.raises(MissingFileError, match="tensor 'lost': record 7"):
        open_checkpoint("index")


def test_listing_a_file_imports_no_numpy(tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt", {"w": tensor()})
    program = (
        "import sys; from importer.checkpoint import open_checkpoint; "
        "open_checkpoint(sys.argv[1]); print(sorted({'numpy', 'ml_dtypes', 'yaml', 'regex'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
