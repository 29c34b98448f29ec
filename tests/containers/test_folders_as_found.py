"""Folders as people have them: shards without an index, variants, leftovers, and folders of other frameworks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from importer.containers import SetContainer, open_container
from importer.conversion import convert
from importer.errors import CorruptContainerError, MissingFileError, UnknownContainerError, UnsupportedError, UsageError
from tests.builders.tables import safetensors, safetensors_entry
from tests.builders.zips import torch_zip


def table(name: str) -> bytes:
    return safetensors({name: safetensors_entry("U8", [1], 0, 1)}, b"\x01")


def index(files: Mapping[str, str]) -> bytes:
    return json.dumps({"weight_map": files}).encode()


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def names_in(folder: Path) -> list[str]:
    """Return the files a folder is read from."""
    return [Path(path).name for path in open_container(folder).container.paths]


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WHOLE = "model.safetensors"
INDEX = f"{WHOLE}.index.json"


@pytest.mark.parametrize(
    "names",
    [
        [A, B],
        ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"],
        ["weights-0-of-2.safetensors", "weights-1-of-2.safetensors"],
        ["net_00001-of-00003.pt", "net_00002-of-00003.pt", "net_00003-of-00003.pt"],
        ["consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"],
    ],
)
def test_complete_shards_need_no_index(tmp_path: Path, names: list[str]) -> None:
    files = {name: torch_zip() if name.endswith(("bin", "pt")) else table(name) for name in names}
    container = open_container(fill(tmp_path, files)).container
    assert isinstance(container, SetContainer)
    assert [Path(shard.path).name for shard in container.shards] == names
    assert "without an index" in container.notes[0]


def test_incomplete_shards_without_an_index_name_what_is_missing(tmp_path: Path) -> None:
    names = ["model-00001-of-00004.safetensors", "model-00003-of-00004.safetensors"]
    with pytest.raises(MissingFileError, match=r"2 of 4 shards.*'model-00002-of-00004.*'model-00004-of-00004"):
        open_container(fill(tmp_path, {name: table(name) for name in names}))


@pytest.mark.parametrize(
    "name",
    ["model.safetensors.index.fp16.json", "model.fp16.safetensors.index.json", "model.safetensors.index.non_ema.json"],
)
def test_an_index_of_a_variant_is_an_index(tmp_path: Path, name: str) -> None:
    first = "model.fp16-00001-of-00001.safetensors"
    assert names_in(fill(tmp_path, {name: index({"a": first}), first: table("a")})) == [name, first]


def test_a_whole_file_of_a_variant_is_found(tmp_path: Path) -> None:
    name = "diffusion_pytorch_model.fp16.safetensors"
    assert names_in(fill(tmp_path, {name: table("a"), "notes.bin": b""})) == [name]


def test_without_a_variant_comes_first(tmp_path: Path) -> None:
    assert names_in(fill(tmp_path, {"model.fp16.safetensors": table("a"), WHOLE: table("a")})) == [WHOLE]


def test_two_variants_are_a_choice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model\.bf16.*model\.fp16"):
        open_container(fill(tmp_path, {"model.fp16.safetensors": table("a"), "model.bf16.safetensors": table("a")}))


def test_a_whole_file_stands_before_a_stale_index_and_a_note_says_so(tmp_path: Path) -> None:
    opened = open_container(fill(tmp_path, {WHOLE: table("a"), INDEX: index({"a": A, "b": B})}))
    assert opened.container.paths == (str(tmp_path / WHOLE),)
    assert any(INDEX in note for note in opened.notes)


def test_an_index_without_its_shards_gives_way_to_a_complete_set(tmp_path: Path) -> None:
    bins = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    files = {
        INDEX: index({"a": A}),
        "pytorch_model.bin.index.json": index(dict(zip(("fc.weight", "fc.bias"), bins, strict=True))),
    }
    opened = open_container(fill(tmp_path, {**files, bins[0]: torch_zip(), bins[1]: torch_zip()}))
    assert Path(opened.container.paths[0]).name == "pytorch_model.bin.index.json"
    assert any(INDEX in note and "1 of 1 shards are missing" in note for note in opened.notes)


def test_a_stale_index_gives_way_to_the_complete_numbered_set(tmp_path: Path) -> None:
    stale = index({"a": "model-00001-of-00003.safetensors"})
    assert names_in(fill(tmp_path, {INDEX: stale, A: table("a"), B: table("b")})) == [A, B]


def test_an_index_alone_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="2 of 2 shards"):
        open_container(fill(tmp_path, {INDEX: index({"a": A, "b": B})}))


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbf" + index({"a": WHOLE}), index({"a": WHOLE}).decode().encode("utf-16")],
    ids=["utf-8 mark", "utf-16"],
)
def test_an_index_with_a_byte_order_mark_is_read(tmp_path: Path, data: bytes) -> None:
    folder = fill(tmp_path, {INDEX: data, WHOLE: table("a")})
    assert open_container(folder / INDEX).container.kind == "sharded"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"<!DOCTYPE html><html>", "no JSON but an HTML page"),
        (b'{"weight_map": {"a": "x",}}', "a comma before the closing bracket"),
        (b"Entry not found", "no JSON but text"),
    ],
)
def test_a_damaged_index_is_named_with_its_fault(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(CorruptContainerError, match=says) as caught:
        open_container(fill(tmp_path, {INDEX: data, A: table("a")}))
    assert caught.value.where is not None
    assert caught.value.where.path.endswith(INDEX)


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf{}", '{"a": 1}'.encode("utf-16")], ids=["utf-8 mark", "utf-16"])
def test_a_configuration_with_a_byte_order_mark_is_read(tmp_path: Path, data: bytes) -> None:
    opened = open_container(fill(tmp_path, {"config.json": data, WHOLE: table("a")}))
    assert opened.config is not None
    assert opened.config_fault is None


@pytest.mark.parametrize("data", [b"<html>", b'{"architectures": [],}', b"Entry not found", b""])
def test_a_damaged_configuration_stops_a_conversion_that_would_need_it(tmp_path: Path, data: bytes) -> None:
    folder = fill(tmp_path / "in", {"config.json": data, WHOLE: table("a")})
    with pytest.raises(CorruptContainerError, match=r"config\.json"):
        convert(folder, tmp_path / "out.bpk")
    assert convert(folder, tmp_path / "out.bpk", recipe="none").is_success


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["flax_model.msgpack", "config.json"], "Flax weights"),
        (["flax_model-00001-of-00002.msgpack", "flax_model.msgpack.index.json"], "Flax weights"),
        (["tf_model.h5", "config.json"], "TensorFlow"),
        (["tf_model-00001-of-00002.h5", "tf_model.h5.index.json"], "TensorFlow"),
        (["saved_model.pb", "variables/variables.index"], "TensorFlow"),
        (["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "bert_config.json"], "TensorFlow"),
        (["model.onnx", "model.onnx_data"], "ONNX"),
        (["llama-7b.Q4_K_M.gguf"], "GGUF"),
        (["openvino_model.xml", "openvino_model.bin"], "OpenVINO"),
        (["weights.npz", "config.json"], "numpy arrays"),
        (["model.mpk"], "older Burn"),
        (["_CHECKPOINT_METADATA", "manifest.ocdbt"], "Orbax"),
        (["rust_model.ot"], "rust-bert"),
    ],
)
def test_weights_of_other_frameworks_are_named(tmp_path: Path, names: list[str], says: str) -> None:
    with pytest.raises(UnknownContainerError, match=says):
        open_container(fill(tmp_path, dict.fromkeys(names, b"")))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ["zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt"],
            "ZeRO-3.*2 ranks.*zero_to_fp32",
        ),
        (["bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"], "optimizer half"),
        (["layer_00-model_00-model_states.pt", "layer_01-model_00-model_states.pt"], "pipeline-parallel"),
        (["__0_0.distcp", "__1_0.distcp"], r"without the \.metadata"),
    ],
)
def test_weights_that_have_to_be_gathered_are_refused_with_the_way_on(
    tmp_path: Path, names: list[str], says: str
) -> None:
    with pytest.raises(UnsupportedError, match=says):
        open_container(fill(tmp_path, dict.fromkeys(names, b"")))


def test_two_tensor_parallel_ranks_are_named_as_such(tmp_path: Path) -> None:
    names = ["mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"]
    with pytest.raises(UsageError, match="2 tensor-parallel ranks"):
        open_container(fill(tmp_path, dict.fromkeys(names, b"")))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["model_index.json", "unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors"], "diffusers pipeline.*'unet', 'vae'"),
        (["model_index.json", "unet/diffusion_flax_model.msgpack"], "diffusers pipeline.*'unet'"),
        (["modules.json", "0_Transformer/pytorch_model.bin", "1_Pooling/config.json"], "sentence-transformers.*'0_Transformer'"),
        (["latest", "zero_to_fp32.py", "global_step100/mp_rank_00_model_states.pt"], "DeepSpeed.*'global_step100'"),
        (["latest_checkpointed_iteration.txt", "iter_0000100/mp_rank_00/model_optim_rng.pt"], "Megatron-LM.*'iter_0000100/mp_rank_00'"),
        (["checkpoint-500/model.safetensors", "checkpoint-1000/model.safetensors"], "a folder of checkpoints.*'checkpoint-1000', 'checkpoint-500'"),
        (["config.json", "weights/model.safetensors"], "'weights'"),
    ],
)  # fmt: skip
def test_a_folder_of_parts_names_the_parts(tmp_path: Path, names: list[str], says: str) -> None:
    with pytest.raises(UnknownContainerError, match=says) as caught:
        open_container(fill(tmp_path, dict.fromkeys(names, b"")))
    assert "Pass one of these" in caught.value.how


def test_the_transformer_of_a_sentence_model_is_read_and_its_other_weights_are_noted(tmp_path: Path) -> None:
    files = {WHOLE: table("a"), "modules.json": b"[]", "2_Dense/model.safetensors": table("b")}
    opened = open_container(fill(tmp_path, files))
    assert opened.container.paths == (str(tmp_path / WHOLE),)
    assert any("'2_Dense'" in note for note in opened.notes)


@pytest.mark.parametrize("data", [torch_zip(), torch_zip() + torch_zip()], ids=["one item", "a chain of items"])
def test_one_data_file_of_a_distributed_checkpoint_asks_for_the_folder(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "__0_0.distcp"
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match=r"one data file of a distributed checkpoint.*Pass the folder"):
        open_container(path)


def test_two_archives_in_one_file_are_refused_with_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(torch_zip() + torch_zip())
    with pytest.raises(CorruptContainerError, match=r"two archives.*pass its folder"):
        open_container(path)
