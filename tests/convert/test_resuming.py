"""An interrupted sharded conversion goes on where it stopped, and only if it is still the same conversion."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import importer
from importer.writers import streaming
from tests.shared import FAMILIES


def interrupted(source: Path, out: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> list[Path]:
    """Convert until the third file, then stop as Ctrl-C would; return the shards that are complete."""
    real = streaming.stream
    calls = []

    def stopping(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        real(*arguments)  # type: ignore[arg-type]  # passed on as they came

    with monkeypatch.context() as patch:
        patch.setattr("importer.writers.writing.stream", stopping)
        with pytest.raises(KeyboardInterrupt):
            importer.convert(source, out, shard_size=10_000, **options)
    return sorted(out.parent.rglob("*-of-*"))


def test_complete_shards_are_kept_and_the_result_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.safetensors"
    kept = {path.name: path.stat().st_ino for path in interrupted(FAMILIES / "llama", out, monkeypatch)}
    assert not out.with_name("out.safetensors.index.json").exists()
    result = importer.convert(FAMILIES / "llama", out, shard_size=10_000)
    whole = importer.convert(FAMILIES / "llama", tmp_path / "whole.safetensors", shard_size=10_000)
    assert len(kept) == 2
    assert "2 complete files were kept from an interrupted run" in result.notes
    assert {name: (tmp_path / name).stat().st_ino for name in kept} == kept
    for ours, theirs in zip(result.files, whole.files, strict=True):
        if not ours.endswith(".json"):
            assert Path(ours).read_bytes() == Path(theirs).read_bytes()


def test_another_source_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shutil.copytree(FAMILIES / "llama", tmp_path / "source")
    out = tmp_path / "out.safetensors"
    interrupted(source, out, monkeypatch)
    weights = bytearray((source / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (source / "model.safetensors").write_bytes(weights)
    importer.convert(source, out, shard_size=10_000)
    fresh = tmp_path / "fresh.safetensors"
    importer.convert(source, fresh)
    sharded, single = importer.open(f"{out}.index.json"), importer.open(fresh)
    for name in single:
        assert sharded[name].numpy().tobytes() == single[name].numpy().tobytes(), name


def test_another_dtype_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.bpk"
    interrupted(FAMILIES / "llama", out, monkeypatch)
    importer.convert(FAMILIES / "llama", out, shard_size=10_000, dtype="f16")
    assert {t.dtype.name for t in importer.open(f"{out}.index.json").tensors.values()} == {"F16"}
