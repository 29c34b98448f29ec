"""The report says what happened, in three forms, and policy follows from its lists alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from importer.dtypes import F32
from importer.plan import Missing, Problem, Skipped, Unused
from importer.report import REPORT_SCHEMA_VERSION, Applied, ApplyResult

RESULT = ApplyResult(
    source="model.pt",
    container="zip",
    root="state_dict",
    recipe="resnet (named)",
    target="template of resnet",
    output="out.bpk",
    format="burnpack",
    written=True,
    dry_run=False,
    applied=(
        Applied("fc.weight", ("state_dict.fc.weight",), "F32", (4, 2), 32, "Linear", ("resnet.yaml:3 target 'fc'",)),
    ),
    output_bytes=288,
    seconds=0.01,
)
MISSING = Missing("fc.bias", (2,), "Linear", "fc.bais")
UNUSED = Unused("fc.bais", ("state_dict.fc.bais",), F32, (2,), "not in the template")
FAULT = Problem("fc.weight", "shape mismatch", "Check the config.", ("fc.weight",))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({}, 0, id="all applied"),
        pytest.param({"missing": (MISSING,)}, 1, id="missing"),
        pytest.param({"missing": (MISSING,), "allow_missing": True}, 0, id="missing allowed"),
        pytest.param({"unused": (UNUSED,)}, 0, id="unused"),
        pytest.param({"unused": (UNUSED,), "strict": True}, 1, id="unused, strict"),
        pytest.param({"errors": (FAULT,)}, 1, id="errors"),
        pytest.param({"errors": (FAULT,), "allow_missing": True}, 1, id="errors are never allowed"),
        pytest.param({"skipped": (Skipped("x", "drop"),), "strict": True}, 0, id="skipped is not unused"),
    ],
)
def test_the_exit_code_follows_from_the_lists_and_the_policy(changes: dict[str, object], code: int) -> None:
    assert replace(RESULT, **changes).exit_code == code  # type: ignore[arg-type]  # parametrized


def test_the_text_counts_every_list_and_shows_lines_only_where_there_are_some() -> None:
    text = replace(RESULT, missing=(MISSING,), unused=(UNUSED,)).to_text()
    assert "✓ Applied:       1" in text
    assert "• fc.bias  [2] of Linear  did you mean: fc.bais?" in text
    assert "• fc.bais  F32 [2]  from state_dict.fc.bais  [not in the template]" in text
    assert "├─ Errors" not in text
    assert text.endswith(
        "└─ refused: the target needs tensors the source does not give (--allow-missing leaves them out)\n"
    )


def test_long_lists_are_cut_and_say_by_how_much() -> None:
    result = replace(RESULT, skipped=tuple(Skipped(f"n{i}", "drop") for i in range(13)))
    assert "… and 3 more" in result.to_text()
    assert "• n12  [drop]" in result.to_text(lines=0)


def test_names_from_the_file_cannot_write_to_the_terminal() -> None:
    text = replace(RESULT, skipped=(Skipped("a\x1b[2Jb", "drop"),)).to_text()
    assert "\x1b" not in text
    assert r"a\x1b[2Jb" in text


def test_without_a_target_the_report_does_not_pretend_that_nothing_is_missing() -> None:
    assert "not declared" in replace(RESULT, target=None).to_text()


def test_the_json_has_a_schema_version_and_every_field_of_every_entry() -> None:
    data = json.loads(replace(RESULT, unused=(UNUSED,), missing=(MISSING,)).to_json())
    assert data["schema_version"] == REPORT_SCHEMA_VERSION
    assert data["applied"][0] == {
        "name": "fc.weight",
        "sources": ["state_dict.fc.weight"],
        "dtype": "F32",
        "shape": [4, 2],
        "nbytes": 32,
        "layer": "Linear",
        "rules": ["resnet.yaml:3 target 'fc'"],
    }
    assert data["unused"][0]["dtype"] == "F32"
    assert data["missing"][0]["suggestion"] == "fc.bais"
    assert data["exit_code"] == 1


def test_the_markdown_has_a_table_of_counts() -> None:
    markdown = replace(RESULT, errors=(FAULT,)).to_markdown()
    assert "| Applied | Skipped | Missing | Unused | Errors |" in markdown
    assert "| 1 | 0 | 0 | 0 | 1 |" in markdown
    assert "- `fc.weight: shape mismatch. Check the config.`" in markdown


@pytest.mark.parametrize(
    "name",
    ["</details><img src=x>", "x` <img src=x onerror=alert(1)> [c](javascript:1) `", "``` a", "a\n## Approved", "|"],
)
def test_names_from_the_file_are_code_in_the_markdown_and_nothing_else(name: str) -> None:
    text = replace(RESULT, root=name, skipped=(Skipped(name, f"drop {name}"),), notes=(name,)).to_markdown()
    lines = [line for line in text.split("\n") if line.startswith("- ")]
    assert len(lines) == 6
    for line in lines:
        fence = line[line.index("`") :][: len(line[line.index("`") :]) - len(line[line.index("`") :].lstrip("`"))]
        inside = line[line.index(fence) + len(fence) : -len(fence)]
        assert line.endswith(fence)
        assert not any(run == fence for run in re.findall("`+", inside))
