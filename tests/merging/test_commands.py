"""`--merge`, adapters alone, and several sources, from the command line to the bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint import open_checkpoint
from importer.cli import main
from importer.conversion import convert
from importer.errors import DecisionNeededError, UsageError
from tests.merging.test_merging import LORA, PEFT, close, linear, save, some
from tests.shared import SHARED

CASES = SHARED / "quantized"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expect.json") if (path.parent / "base").exists())


def adapter(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write a base and an adapter for it; return the base's weight and both factors."""
    w, a, b = linear()
    save(folder / "model.safetensors", {"q.weight": w, "n.weight": some(5)})
    (folder / "lora").mkdir()
    save(folder / "lora" / "adapter_model.safetensors", {f"{PEFT}q.lora_A.weight": a, f"{PEFT}q.lora_B.weight": b})
    settings = json.dumps({**LORA, "base_model_name_or_path": "someone/base"})
    (folder / "lora" / "adapter_config.json").write_text(settings, encoding="utf-8")
    return w, a, b


def test_adapters_are_merged_with_their_weights_before_the_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w, a, b = adapter(tmp_path)
    lora, out = str(tmp_path / "lora"), tmp_path / "out.safetensors"
    merge = ["--merge", lora, "--merge", f"{lora}=-0.5"]
    assert (
        main(["convert", str(tmp_path / "model.safetensors"), str(out), "--recipe", "none", *merge, "--format", "json"])
        == 0
    )
    assert close(to_numpy(open_checkpoint(out)["q.weight"].array), w + 1.5 * b.astype(np.float64) @ a)
    report = json.loads(capsys.readouterr().out)
    assert sum("PEFT LoRA, rank 2, alpha 6" in note for note in report["notes"]) == 2
    sources = next(one["sources"] for one in report["applied"] if one["name"] == "q.weight")
    assert f"{PEFT}q.lora_A.weight@adapter_model.safetensors" in sources


@pytest.mark.parametrize("recipe", ["auto", "none"])
def test_an_adapter_alone_asks_for_its_base(tmp_path: Path, recipe: str) -> None:
    adapter(tmp_path)
    with pytest.raises(DecisionNeededError, match=r"an adapter .PEFT. for 'someone/base'") as caught:
        convert(tmp_path / "lora", tmp_path / "out.bpk", recipe=recipe)
    assert "--merge" in caught.value.lines[0]


def test_a_listing_says_what_an_adapter_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter(tmp_path)
    assert main(["inspect", str(tmp_path / "lora")]) == 0
    assert "adapter: PEFT, rank 2, alpha 6, of someone/base" in capsys.readouterr().out


def test_one_tensor_s_way_leads_through_the_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter(tmp_path)
    command = [
        "explain",
        str(tmp_path / "model.safetensors"),
        "q.weight",
        "--recipe",
        "none",
        "--merge",
        str(tmp_path / "lora"),
    ]
    assert main(command) == 0
    assert f"{PEFT}q.lora_B.weight@adapter_model.safetensors" in capsys.readouterr().out


def test_any_number_of_threads_and_shards_gives_the_same_bytes(tmp_path: Path) -> None:
    w, a, b = some(700, 900), some(8, 900), some(700, 8)
    save(tmp_path / "model.safetensors", {"q.weight": w})
    (tmp_path / "lora").mkdir()
    save(tmp_path / "lora" / "adapter_model.safetensors", {f"{PEFT}q.lora_A.weight": a, f"{PEFT}q.lora_B.weight": b})
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(LORA), encoding="utf-8")
    outs = []
    for workers in (1, 3):
        out = tmp_path / f"{workers}.safetensors"
        convert(tmp_path / "model.safetensors", out, recipe="none", merge=tmp_path / "lora", workers=workers)
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]


def test_sources_are_joined_under_their_prefixes(tmp_path: Path) -> None:
    save(tmp_path / "a.safetensors", {"w.weight": np.ones((1, 1), np.float32)})
    save(tmp_path / "b.safetensors", {"w.weight": np.full((1, 1), 2, np.float32)})
    pair = [str(tmp_path / "a.safetensors"), str(tmp_path / "b.safetensors")]
    out = tmp_path / "out.safetensors"
    assert main(["convert", *pair, str(out), "--recipe", "none", "--prefix", "encoder", "--prefix", "head"]) == 0
    assert {name: tensor.numpy().item() for name, tensor in open_checkpoint(out).tensors.items()} == {
        "encoder.w.weight": 1,
        "head.w.weight": 2,
    }
    with pytest.raises(UsageError, match=r"both have 'w.weight'"):
        convert(pair, tmp_path / "other.safetensors", recipe="none")
    with pytest.raises(UsageError, match="1 prefixes for 2 sources"):
        convert(pair, tmp_path / "other.safetensors", recipe="none", prefix="encoder")
    with pytest.raises(UsageError, match="--root"):
        convert(pair, tmp_path / "other.safetensors", recipe="none", root="x")
    assert convert(pair, tmp_path / "other.safetensors", recipe="none", prefix=("", "head.")).is_success
    assert set(open_checkpoint(tmp_path / "other.safetensors")) == {"w.weight", "head.w.weight"}


@pytest.mark.skipif(not NAMES, reason="the shared cases are not there")
@pytest.mark.parametrize("case", NAMES)
def test_merged_values_are_those_of_the_reference(case: str, tmp_path: Path) -> None:
    folder = CASES / case
    rule = json.loads((folder / "expect.json").read_text(encoding="utf-8"))["compare"]
    merge = next(path for path in (folder / "adapter", folder / "lora.safetensors") if path.exists())
    result = convert(folder / "base", tmp_path / "out.safetensors", recipe="none", adapter="none", merge=merge)
    assert result.is_success, result.to_text()
    made, expected = open_checkpoint(tmp_path / "out.safetensors"), open_checkpoint(folder / "expect.safetensors")
    assert set(made) == set(expected)
    for name in expected:
        got, want = (to_numpy(one[name].array) for one in (made, expected))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind == "i":
            assert np.array_equal(got, want)
            continue
        relative = rule.get("rtol", 2**-7)
        assert np.allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=relative, atol=rule.get("atol", 2e-3)
        ), name
