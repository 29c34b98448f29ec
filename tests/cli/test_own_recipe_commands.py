"""`importer template`, `suggest` and `explain`: what they print, where, and what they end with."""

from __future__ import annotations

from pathlib import Path

import pytest

import importer
from importer.arrays import full
from importer.cli import main
from importer.dtypes import F32
from importer.writers import Destination, OutputFormat, OutputTensor, write
from tests.shared import FAMILIES
from tests.suggest.drafted import target_shapes

LLAMA = FAMILIES / "llama" / "pytorch_model.bin"
RESNET = FAMILIES / "resnet18" / "model.safetensors"


def skeleton(family: str, folder: Path) -> Path:
    """Write what a fresh Burn model of the family would save."""
    shapes = target_shapes(FAMILIES / family / "burn_target.json")
    tensors = [OutputTensor(name, full(0, F32, shape)) for name, shape in shapes.items()]
    path = folder / "fresh.bpk"
    write(tensors, Destination(path=str(path), format=OutputFormat.BURNPACK))
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_template_can_be_pasted_under_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = skeleton("resnet18", tmp_path)
    assert run("template", fresh) == 0
    rules = (
        "rename:\n  - ['\\.downsample\\.0\\.', '.downsample.conv.']\n  - ['\\.downsample\\.1\\.', '.downsample.bn.']\n"
    )
    rules += "  - ['^(layer[1-4])\\.(\\d+)\\.', '$1.blocks.$2.Basic.']\n"
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"recipe: 1\nname: mine\n{rules}{capsys.readouterr().out}")
    assert importer.convert(RESNET, tmp_path / "out.bpk", recipe=str(recipe), target=fresh).is_success


def test_a_suggested_recipe_runs_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh, recipe = skeleton("resnet18", tmp_path), tmp_path / "mine.yaml"
    assert run("suggest", RESNET, "--target", fresh, "-o", recipe) == 0
    assert capsys.readouterr().err == "every parameter of the target has a source\n"
    assert run("recipes", "check", recipe) == 0
    assert run("convert", RESNET, tmp_path / "out.bpk", "--recipe", recipe, "--target", fresh, "--strict") == 0


def test_a_suggestion_goes_to_stdout_and_its_remarks_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("suggest", LLAMA, "--target", skeleton("llama", tmp_path)) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("# A draft:")
    assert "things to check" in printed.err


def test_a_suggestion_that_leaves_something_open_ends_with_1_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("suggest", RESNET, "--target", skeleton("llama", tmp_path)) == 1
    assert "tok_embeddings.weight [64, 32]: no tensor fits" in capsys.readouterr().err


def test_a_recipe_that_exists_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("edited by hand")
    fresh = skeleton("resnet18", tmp_path)
    assert run("suggest", RESNET, "--target", fresh, "-o", recipe) == 4
    assert "mine.yaml: the file exists already" in capsys.readouterr().err
    assert recipe.read_text() == "edited by hand"
    assert run("suggest", RESNET, "--target", fresh, "-o", recipe, "--overwrite") == 0


def test_a_target_that_is_no_burn_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("template", LLAMA) == 2
    assert "Give a .bpk or .safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.weight", "layers.0.attention.wq.weight"])
def test_a_tensor_is_explained_by_its_source_or_its_output_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", LLAMA, name) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("recipe  llama (")
    assert lines[2] == "model.layers.0.self_attn.q_proj.weight  BF16 [32, 32]"
    assert any("pytorch_model/data/" in line and "strides [32, 1]" in line for line in lines)
    assert any("llama.yaml:" in line and "rename" in line for line in lines)
    assert any("rearrange" in line for line in lines)
    assert any("weight [out, in] in torch, [in, out] in Burn" in line for line in lines)


def test_the_bytes_of_an_explanation_are_those_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The norm is neither moved nor cast, so its bytes can be looked up on both sides."""
    out = tmp_path / "out.bpk"
    importer.convert(LLAMA, out)
    run("explain", LLAMA, "norm.gamma")
    text = capsys.readouterr().out
    start = int(text.split("bytes ")[1].split(" and on")[0].replace(",", ""))
    place = int(text.split(" bytes at ")[1].split(" of a")[0].replace(",", ""))
    expected = importer.open(LLAMA)["model.norm.weight"].numpy().tobytes()
    assert LLAMA.read_bytes()[start : start + len(expected)] == expected
    assert out.read_bytes()[place : place + len(expected)] == expected


def test_a_dropped_tensor_is_explained_by_the_rule_that_dropped_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", LLAMA, "model.layers.0.self_attn.rotary_emb.inv_freq") == 1
    assert "is left out: llama.yaml:" in capsys.readouterr().out


def test_a_missing_parameter_is_explained_with_the_nearest_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("recipe: 1\nname: mine\ntarget:\n  fcc: Linear(32, 10)\n")
    assert run("explain", RESNET, "fcc.weight", "--recipe", recipe) == 1
    printed = capsys.readouterr().out
    assert "fcc.weight [32, 10] is missing: template of mine declares it" in printed
    assert "fc.weight" in printed.split("nearest: ")[1]


def test_an_unused_tensor_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("recipe: 1\nname: mine\ntarget:\n  fc: Linear(32, 10)\n")
    assert run("explain", RESNET, "conv1.weight", "--recipe", recipe) == 1
    assert "unused: the template has no such module" in capsys.readouterr().out


def test_a_name_that_is_nowhere_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", LLAMA, "model.norm.wait") == 2
    assert "Did you mean 'model.norm.weight'" in capsys.readouterr().err
