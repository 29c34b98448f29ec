"""`importer convert` as a user meets it: exit codes, streams, and nothing left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import importer
from importer.cli import main
from importer.errors import UsageError
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import FAMILIES, FIXTURES

LLAMA = str(FAMILIES / "llama")


def test_it_converts_and_prints_the_report_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "out.bpk")]) == 0
    printed = capsys.readouterr()
    assert "✓ Applied:      21" in printed.out
    assert printed.err == ""


def test_an_existing_output_is_left_alone_unless_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.bpk"
    out.write_text("mine")
    assert main(["convert", LLAMA, str(out)]) == 4
    assert out.read_text() == "mine"
    assert "--overwrite" in capsys.readouterr().err
    assert main(["convert", LLAMA, str(out), "--overwrite"]) == 0
    assert len(importer.open(out)) == 21


def test_a_dry_run_writes_nothing_and_knows_the_exact_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "dry.bpk"), "--dry-run", "--format", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert not list(tmp_path.iterdir())
    main(["convert", LLAMA, str(tmp_path / "out.bpk")])
    assert planned["output_bytes"] == (tmp_path / "out.bpk").stat().st_size


def skeleton_without(name: str, place: Path) -> Path:
    """Write a target that has every llama parameter but `name`."""
    full = place / "full.bpk"
    importer.convert(LLAMA, full, param_ids="stable")
    target = place / "target.bpk"
    importer.convert(full, target, only=f"^(?:{'|'.join(n for n in importer.open(full) if n != name)})$")
    return target


def test_a_target_decides_what_is_written_and_gives_its_ids(tmp_path: Path) -> None:
    target = skeleton_without("norm.gamma", tmp_path)
    result = importer.convert(LLAMA, tmp_path / "out.bpk", target=target)
    output = importer.open(tmp_path / "out.bpk")
    assert [entry.name for entry in result.unused] == ["norm.gamma"]
    assert set(output) == set(importer.open(target))
    assert output.param_ids == importer.open(target).param_ids


def test_unused_tensors_fail_only_in_strict_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(skeleton_without("norm.gamma", tmp_path))
    assert main(["convert", LLAMA, str(tmp_path / "strict.bpk"), "--target", target, "--strict"]) == 1
    assert not (tmp_path / "strict.bpk").exists()
    assert "refused by --strict" in capsys.readouterr().out


MISSING = """
recipe: 1
name: lossy
extends: llama
drop: ['^model\\.norm\\.']
"""


def test_a_missing_tensor_refuses_the_conversion_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "lossy.yaml"
    recipe.write_text(MISSING)
    out, report = tmp_path / "out.bpk", tmp_path / "report.json"
    assert main(["convert", LLAMA, str(out), "--recipe", str(recipe), "--report", str(report)]) == 1
    assert not out.exists()
    assert "norm.gamma  [32] of RmsNorm" in capsys.readouterr().out
    assert json.loads(report.read_text())["missing"] == [
        {"name": "norm.gamma", "shape": [32], "layer": "RmsNorm", "suggestion": None}
    ]
    assert main(["convert", LLAMA, str(out), "--recipe", str(recipe), "--allow-missing"]) == 0
    assert "norm.gamma" not in importer.open(out)


def test_the_safetensors_output_says_its_layout(tmp_path: Path) -> None:
    importer.convert(LLAMA, tmp_path / "out.safetensors")
    metadata = importer.open(tmp_path / "out.safetensors").metadata
    assert metadata["importer.layout"] == "burn"
    assert metadata["importer.recipe"] == "llama"


def test_layouts_go_back_to_torch_by_the_same_types(tmp_path: Path) -> None:
    """There and back by types alone gives the source's bytes; only what Burn has no place for is gone."""
    full = FIXTURES / "vintage/torch-2.13.0/full_model.pt"
    importer.convert(full, tmp_path / "burn.bpk")
    recipe = tmp_path / "back.yaml"
    recipe.write_text(
        "recipe: 1\nname: back\ntypes:\n  - ['^conv$', Conv2d]\n  - ['^bn$', BatchNorm]\n  - ['^block\\.\\d+$', Linear]\n"
    )
    back = tmp_path / "back.safetensors"
    assert main(["convert", str(tmp_path / "burn.bpk"), str(back), "--recipe", str(recipe), "--adapter", "torch"]) == 0
    source, returned = importer.open(full), importer.open(back)
    assert set(source) - set(returned) == {"bn.num_batches_tracked"}
    for name in returned:
        assert source[name].numpy().tobytes() == returned[name].numpy().tobytes(), name


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["convert", LLAMA, "out.onnx"], 2, ".bpk", id="unknown extension"),
        pytest.param(["convert", LLAMA, "out.bpk", "--recipe", "llam"], 2, "Did you mean llama", id="unknown recipe"),
        pytest.param(["convert", LLAMA, "out.bpk", "--only", "(?=x)"], 2, "look-ahead", id="bad pattern"),
        pytest.param(["convert", LLAMA, "no/such/folder/out.bpk"], 4, "no/such/folder", id="no folder"),
        pytest.param(["convert", "no-such-file.pt", "out.bpk"], 3, "no such file", id="no source"),
        pytest.param(["convert", LLAMA, "out.bpk", "--target", __file__], 3, "no checkpoint", id="target is no file"),
        pytest.param(["convert", LLAMA, "out.bpk", "--root", "nope"], 2, "nope", id="unknown root"),
    ],
)
def test_a_failure_is_one_message_on_stderr_and_an_exit_code(
    arguments: list[str], code: int, says: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert "Traceback" not in printed.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["source", "output", "target", "recipe"])
def test_a_report_never_replaces_what_the_command_reads_or_writes(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / f"{name}.safetensors" for name in ("source", "output", "target", "recipe")}
    files[role].write_text("mine")
    options = ["--target", str(files["target"]), "--recipe", str(files["recipe"]), "--report", str(files[role])]
    assert main(["convert", str(files["source"]), str(files["output"]), *options]) == 2
    assert f"is also the {role}" in capsys.readouterr().err
    assert files[role].read_text() == "mine"


def test_a_report_without_a_place_is_noticed_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "nowhere/report.json"
    assert main(["convert", LLAMA, str(tmp_path / "out.bpk"), "--report", str(report)]) == 4
    assert "its folder does not exist" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_file_whose_name_is_no_text_is_json(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"n\xff.safetensors")
    source.write_bytes(safetensors({"x": safetensors_entry("U8", [1], 0, 1)}, b"\0"))
    report = tmp_path / "report.json"
    assert main(["convert", str(source), str(tmp_path / "o.bpk"), "--recipe", "none", "--report", str(report)]) == 0
    assert json.loads(report.read_text(encoding="utf-8"))["source"] == str(source)


def test_on_the_way_back_nothing_outside_the_template_gets_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    burn, recipe = tmp_path / "burn.safetensors", tmp_path / "r.yaml"
    importer.convert(LLAMA, burn)
    recipe.write_text("recipe: 1\nname: r\ntarget: {output: 'Linear(32, 64, bias=False)'}\n")
    command = ["convert", str(burn), str(tmp_path / "back.safetensors"), "--recipe", str(recipe), "--adapter", "torch"]
    assert main(command) == 2
    assert "the module type of 20 paths is not known" in capsys.readouterr().err


def test_a_template_tells_the_types_on_the_way_back(tmp_path: Path) -> None:
    burn, back = tmp_path / "burn.safetensors", tmp_path / "back.safetensors"
    importer.convert(FAMILIES / "resnet18", burn)
    (tmp_path / "config.json").write_bytes((FAMILIES / "resnet18/config.json").read_bytes())
    importer.convert(burn, back, recipe="resnet", adapter="torch")
    source = importer.open(FAMILIES / "resnet18")
    assert importer.open(back)["fc.weight"].numpy().tobytes() == source["fc.weight"].numpy().tobytes()
    assert len(importer.open(back)) == len(importer.open(burn))


@pytest.mark.parametrize("name", ["burn.bpk", "burn.safetensors"])
@pytest.mark.parametrize("shard_size", [None, 10_000], ids=["one file", "shards"])
def test_what_lies_in_burns_layout_is_never_transposed_again_unasked(
    name: str, shard_size: int | None, tmp_path: Path
) -> None:
    burn = tmp_path / name
    importer.convert(LLAMA, burn, param_ids="stable", shard_size=shard_size)
    source = burn if shard_size is None else tmp_path / f"{name}.index.json"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "recipe: 1\nname: r\nkeep: '^output'\nrename: [['^output\\.', 'head.']]\ntypes: [['^head$', Linear]]\n"
    )
    importer.convert(source, tmp_path / "same.bpk")
    importer.convert(source, tmp_path / "renamed.bpk", recipe=str(recipe))
    there, same = importer.open(source), importer.open(tmp_path / "same.bpk")
    assert [same[name].shape for name in there] == [there[name].shape for name in there]
    assert same.param_ids == there.param_ids
    assert importer.open(tmp_path / "renamed.bpk")["head.weight"].shape == there["output.weight"].shape
    importer.convert(source, tmp_path / "asked.bpk", recipe=str(recipe), adapter="burn")
    assert importer.open(tmp_path / "asked.bpk")["head.weight"].shape == there["output.weight"].shape[::-1]


def test_an_only_that_matches_nothing_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "out.bpk"), "--only", "^nothing$"]) == 2
    assert "no output name matches" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_recipe_for_another_model_is_told_apart_from_a_wrong_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "out.bpk"), "--recipe", "resnet"]) == 2
    assert "check that resnet is the recipe for it" in capsys.readouterr().err


def test_a_recipe_file_that_does_not_exist_is_the_users_fault_and_not_the_sources(tmp_path: Path) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "out.bpk"), "--recipe", str(tmp_path / "none.yaml")]) == 2


def test_counts_are_positive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shard_size is 0"):
        importer.convert(LLAMA, tmp_path / "out.bpk", shard_size=0)
    with pytest.raises(UsageError, match="workers is -1"):
        importer.convert(LLAMA, tmp_path / "out.bpk", workers=-1)


@pytest.mark.parametrize("rule", ["drop: ['^layer\\.ghost$']", "keep: ['weight$', 'bias$']"])
def test_what_is_no_dense_tensor_can_be_left_out_and_is_reported_so(rule: str, tmp_path: Path) -> None:
    source = FIXTURES / "cases/meta-tensors-without-data/pytorch_model.bin"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"recipe: 1\nname: r\n{rule}\ntypes: [['^layer$', Linear]]\n")
    result = importer.convert(source, tmp_path / "out.bpk", recipe=str(recipe), dry_run=True)
    assert not result.errors
    assert not result.unmatched_rules
    assert [(entry.name, entry.rule.partition(" ")[0]) for entry in result.skipped if "ghost" in entry.name] == [
        ("layer.ghost", "r.yaml:3")
    ]


def test_a_type_the_format_lacks_does_not_hide_what_the_report_has_to_say(tmp_path: Path) -> None:
    source = FIXTURES / "beyond/odd.pt"
    result = importer.convert(source, tmp_path / "out.bpk", recipe="none")
    assert result.exit_code == 1
    assert {entry.name for entry in result.errors} == {entry.name for entry in importer.open(source).unsupported}


def test_every_source_of_a_collision_is_in_the_report(tmp_path: Path) -> None:
    source, recipe = FIXTURES / "cases/nested-training-checkpoint/model.ckpt", tmp_path / "r.yaml"
    recipe.write_text("recipe: 1\nname: r\nrename: [['^.*$', 'same']]\n")
    result = importer.convert(source, tmp_path / "out.bpk", recipe=str(recipe), adapter="none")
    applied = {name for entry in result.applied for name in entry.sources}
    at_fault = {name for entry in result.errors for name in entry.sources}
    assert result.exit_code == 1
    assert applied | at_fault | {entry.name for entry in result.skipped} == set(importer.open(source).tensors)


def test_an_unknown_model_stops_with_the_ways_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = FIXTURES / "vintage/torch-2.13.0/state_dict.pt"
    assert main(["convert", str(source), str(tmp_path / "out.bpk")]) == 2
    told = capsys.readouterr().err
    assert "--recipe NAME" in told
    assert "--recipe none" in told


def test_types_are_never_guessed_but_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("recipe: 1\nname: r\nrename:\n  - ['^block\\.', 'seq.']\n")
    source = FIXTURES / "vintage/torch-2.13.0/state_dict.pt"
    assert main(["convert", str(source), str(tmp_path / "out.bpk"), "--recipe", str(recipe)]) == 2
    told = capsys.readouterr().err
    assert "  - ['^bn$', BatchNorm]" in told
    assert r"  - ['^seq\.\d+$', Linear]" in told


@pytest.mark.parametrize(("choice", "weights", "norms"), [("f16", "F16", "F16"), ("half", "F16", "F32")])
def test_half_precision_leaves_batch_norm_alone_and_a_plain_cast_does_not(
    choice: str, weights: str, norms: str, tmp_path: Path
) -> None:
    importer.convert(FIXTURES / "vintage/torch-2.13.0/full_model.pt", tmp_path / "out.bpk", dtype=choice)
    output = importer.open(tmp_path / "out.bpk")
    assert output["conv.weight"].dtype.name == weights
    assert output["bn.running_var"].dtype.name == norms
