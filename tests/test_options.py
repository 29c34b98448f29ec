"""Options are declared once: the command line, keywords and the frozen value agree."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

import importer
from importer.cli import main
from importer.cli.commands import COMMANDS
from importer.cli.parser import build_parser, parse
from importer.errors import UsageError
from importer.limits import DEFAULT_LIMITS
from importer.options import FLAGS, AdapterChoice, DTypeChoice, OptionGroup, Options
from tests.builders.tables import safetensors, safetensors_entry


def test_the_command_line_without_flags_is_the_default() -> None:
    assert parse(["convert", "a.pt", "b.bpk"]).options == Options()


def test_every_option_can_be_given_on_the_command_line() -> None:
    given = parse(
        [
            "convert",
            "a",
            "b",
            "--recipe",
            "r",
            "--target",
            "t",
            "--dtype",
            "f16",
            "--adapter",
            "torch",
            "--merge",
            "lora",
            "--merge",
            "other=0.5",
            "--prefix",
            "p",
            "--only",
            "x",
            "--root",
            "k",
            "--sparse",
            "dense",
            "--quantized",
            "integers",
            "--no-checksums",
            "--limit",
            "max_tensors=3",
            "--param-ids",
            "stable",
            "--shard-size",
            "5KB",
            "--overwrite",
            "--workers",
            "2",
            "--dry-run",
            "--allow-missing",
            "--unscaled-fp8",
            "--strict",
        ]
    ).options
    default = Options()
    assert [one.name for one in fields(Options) if getattr(given, one.name) == getattr(default, one.name)] == []
    assert given.limits == replace(DEFAULT_LIMITS, max_tensors=3)
    assert (given.merge, given.prefix) == (("lora", "other=0.5"), ("p",))
    assert (given.shard_size, given.adapter) == (5000, AdapterChoice.TORCH)


def test_each_group_is_taken_by_a_command_and_shown_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert {group for command in COMMANDS for group in command.groups} == set(OptionGroup)
    with pytest.raises(SystemExit):
        build_parser().parse_args(["convert", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for flag in FLAGS.values():
        assert " ".join(flag.about.split()[:4]) in printed


def test_keywords_are_the_fields(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no option 'dtpe'. Did you mean dtype\?"):
        importer.convert("a.pt", tmp_path / "b.bpk", dtpe="f16")
    with pytest.raises(UsageError, match=r"there is no option 'workers'. There are: root, sparse"):
        importer.open("a.pt", workers=3)
    assert "shard_size: split into files" in (importer.convert.__doc__ or "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "f8"}, "dtype is 'f8'. Choose one of keep, f32, f16, bf16, f64, half."),
        ({"workers": 0}, "workers is 0. Give a positive number, or None."),
        ({"shard_size": -1}, "shard_size is -1"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as told:
        Options(**changes)  # type: ignore[arg-type] # wrong on purpose
    assert str(told.value).startswith(message)


def test_text_names_a_choice() -> None:
    assert Options(dtype="half").dtype is DTypeChoice.HALF  # type: ignore[arg-type] # as keywords come


def test_a_recipe_decides_the_dtype_unless_the_command_line_does(tmp_path: Path) -> None:
    source, recipe = tmp_path / "in.safetensors", tmp_path / "r.yaml"
    source.write_bytes(safetensors({"w": safetensors_entry("F32", [1], 0, 4)}, bytes(4)))
    recipe.write_text("recipe: 1\nname: r\ntarget:\n  w: Param(1)\ndtype: f16\n")
    for more, dtype in (([], "F16"), (["--dtype", "keep"], "F32"), (["--dtype", "bf16"], "BF16")):
        out = tmp_path / f"{dtype}.safetensors"
        assert main(["convert", str(source), str(out), "--recipe", str(recipe), *more]) == 0
        assert importer.open(out)["w"].dtype.name == dtype
