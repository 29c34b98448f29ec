"""Which file of a folder is meant, by names alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.containers.folder import find_config, find_weights
from importer.errors import SourceError, UnknownContainerError, UsageError


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        pytest.param(["model.safetensors", "pytorch_model.bin"], ["model.safetensors"], id="safetensors before bin"),
        pytest.param(
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            ["model.safetensors.index.json"],
            id="index before shards",
        ),
        pytest.param(
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"],
            ["pytorch_model.bin.index.json"],
            id="index of pickled shards",
        ),
        pytest.param(
            ["diffusion_pytorch_model.safetensors", "config.json"],
            ["diffusion_pytorch_model.safetensors"],
            id="diffusers",
        ),
        pytest.param(["consolidated.00.pth", "params.json", "tokenizer.model"], ["consolidated.00.pth"], id="meta"),
        pytest.param(
            ["consolidated.01.pth", "consolidated.00.pth"], ["consolidated.00.pth", "consolidated.01.pth"], id="slices"
        ),
        pytest.param([".metadata", "__0_0.distcp", "__1_0.distcp"], [".metadata"], id="distributed"),
        pytest.param(
            ["mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"],
            ["mp_rank_00_model_states.pt"],
            id="deepspeed",
        ),
        pytest.param(
            ["best.pt", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "training_args.bin"],
            ["best.pt"],
            id="trainer",
        ),
        pytest.param(["model.bpk", "notes.txt"], ["model.bpk"], id="burnpack"),
        pytest.param(["net.ckpt"], ["net.ckpt"], id="lightning"),
    ],
)
def test_the_weights_are_found(tmp_path: Path, names: list[str], chosen: list[str]) -> None:
    assert find_weights(fill(tmp_path, names))[0].paths == tuple(tmp_path / name for name in chosen)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["a.pt", "b.pth"], id="two files"),
        pytest.param(["a.index.json", "b.index.json"], id="two indexes"),
    ],
)
def test_more_than_one_candidate_is_for_the_user_to_choose(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UsageError, match="2 files that could be meant") as caught:
        find_weights(fill(tmp_path, names))
    assert all(repr(name) in caught.value.what for name in names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param([], "holds no files", id="empty"),
        pytest.param(["config.json", "vocab.txt"], "'config.json', 'vocab.txt'", id="no weights"),
        pytest.param([f"{n}.txt" for n in range(9)], "and 1 more", id="many"),
        pytest.param(["data.pkl", "version"], "unpacked checkpoint", id="unpacked archive"),
    ],
)
def test_a_folder_without_weights_says_what_it_holds(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(UnknownContainerError, match=message):
        find_weights(fill(tmp_path, names))


def test_folders_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(UnknownContainerError):
        find_weights(tmp_path)


def test_a_folder_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder cannot be read"):
        find_weights(tmp_path / "absent")


@pytest.mark.parametrize(
    ("names", "config"),
    [(["config.json", "params.json"], "config.json"), (["params.json"], "params.json"), ([], None)],
    ids=["both", "params", "none"],
)
def test_the_configuration_beside_the_weights_is_found(tmp_path: Path, names: list[str], config: str | None) -> None:
    assert find_config(fill(tmp_path, names)) == (None if config is None else tmp_path / config)
