"""What a plan is held against: every way a tensor can fail to fit what the target declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.arrays import full
from importer.checkpoint import open_checkpoint
from importer.dtypes import F16, F32, DType
from importer.errors import UsageError
from importer.options import AdapterChoice, Options, ParamIdChoice
from importer.plan import Plan, PlannedTensor, build_plan
from importer.plan.ids import stable_ids
from importer.plan.target_check import Expected, Parameter, target_check
from importer.recipes import parse_recipe
from tests.builders.tables import safetensors, safetensors_entry

NONE: frozenset[str] = frozenset()


def tensor(name: str, *shape: int, dtype: DType = F32) -> PlannedTensor:
    return PlannedTensor(name=name, array=full(0, dtype, shape), sources=(f"source.{name}",))


def declared(**parameters: tuple[int, ...]) -> Expected:
    return Expected("fresh.bpk", {name.replace("_", "."): Parameter(shape, F32) for name, shape in parameters.items()})


def test_what_fits_comes_in_the_declared_order() -> None:
    checked = target_check([tensor("b", 2), tensor("a", 3)], declared(a=(3,), b=(2,)), NONE)
    assert [step.name for step in checked.steps] == ["a", "b"]
    assert (checked.missing, checked.unused, checked.errors) == ((), (), ())


@pytest.mark.parametrize(
    ("found", "message", "how"),
    [
        (tensor("w", 2, 4), "shape mismatch, expected [2, 3] (fresh.bpk), found [2, 4]", "config.json"),
        (tensor("w", 3, 2), "shape mismatch, expected [2, 3] (fresh.bpk), found [3, 2]", "another order"),
        (tensor("w", 2, 3, dtype=F16), "dtype mismatch, expected F32 (fresh.bpk), found F16", "--dtype"),
    ],
    ids=["size", "order", "dtype"],
)
def test_a_misfit_is_an_error_with_a_way_out(found: PlannedTensor, message: str, how: str) -> None:
    checked = target_check([found], declared(w=(2, 3)), NONE)
    (problem,) = checked.errors
    assert (problem.name, problem.message, problem.sources) == ("w", message, ("source.w",))
    assert how in problem.how
    assert (checked.steps, checked.missing) == ((), ())


def test_a_dtype_nobody_declares_is_free() -> None:
    expected = Expected("template of x", {"w": Parameter((2,))})
    assert target_check([tensor("w", 2, dtype=F16)], expected, NONE).errors == ()


def test_what_nobody_asked_for_is_unused_and_says_so() -> None:
    (unused,) = target_check([tensor("extra", 5)], declared(), NONE).unused
    assert (unused.name, unused.sources, unused.shape, unused.reason) == (
        "extra", ("source.extra",), (5,), "not in fresh.bpk",
    )  # fmt: skip


def test_a_name_at_fault_already_is_not_missing_as_well() -> None:
    assert target_check([], declared(w=(2,)), frozenset({"w"})).missing == ()


def test_the_nearest_unused_name_of_the_same_size_is_suggested() -> None:
    found = [tensor("layer.wieght", 3, 2), tensor("layer.weight2", 7)]
    (missing,) = target_check(found, declared(layer_weight=(2, 3)), NONE).missing
    assert missing.suggestion == "layer.wieght"  # the other is nearer, but has another size


def test_a_name_that_is_like_none_gets_no_suggestion() -> None:
    (missing,) = target_check([tensor("zzz", 2)], declared(weight=(2,)), NONE).missing
    assert missing.suggestion is None


def test_hundreds_of_missing_names_get_no_suggestions() -> None:
    many = declared(**{f"w{number}": (2,) for number in range(201)})
    missing = target_check([tensor("w0x", 2)], many, NONE).missing
    assert len(missing) == 201
    assert {entry.suggestion for entry in missing} == {None}


def planned(tmp_path: Path, recipe: str, options: Options, **shapes: tuple[int, ...]) -> Plan:
    header: dict[str, object] = {}
    at = 0
    for name, shape in shapes.items():
        size = 4 * (shape[0] if shape else 1)
        header[name] = safetensors_entry("F32", list(shape), at, at + size)
        at += size
    path = tmp_path / "in.safetensors"
    path.write_bytes(safetensors(header, bytes(range(at))))
    text = f"recipe: 1\nname: r\n{recipe or _KEEPS_NAMES}\n"
    return build_plan(open_checkpoint(path), parse_recipe(text), options)


_KEEPS_NAMES = "rename: [['^$', x]]"
AS_IT_IS = Options(adapter=AdapterChoice.NONE)


def test_two_names_that_become_one_are_an_error_that_names_both(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rename: [['^[ab]$', 'c']]", AS_IT_IS, a=(1,), b=(1,), d=(1,))
    (problem,) = plan.errors
    assert problem.name == "c"
    assert "'a'" in problem.message
    assert "'b'" in problem.message


def test_only_leaves_out_the_rest_and_names_the_option(tmp_path: Path) -> None:
    plan = planned(tmp_path, "", Options(adapter=AdapterChoice.NONE, only=("^a$",)), a=(1,), b=(1,))
    assert [step.name for step in plan.tensors] == ["a"]
    assert [(entry.name, entry.rule) for entry in plan.skipped] == [("b", "option --only '^a$'")]


@pytest.mark.parametrize(
    ("only", "message"), [("^z$", "no output name matches"), ("(", "the pattern of `only` is wrong")]
)
def test_an_only_that_leaves_nothing_or_is_no_pattern_is_refused(tmp_path: Path, only: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        planned(tmp_path, "", Options(adapter=AdapterChoice.NONE, only=(only,)), a=(1,))


def test_rules_that_matched_nothing_are_listed(tmp_path: Path) -> None:
    plan = planned(tmp_path, "drop: ['^z$']\nrename: [['^a', a]]", AS_IT_IS, a=(1,))
    assert [rule.partition(" ")[2] for rule in plan.unmatched_rules] == ["drop '^z$'"]


def test_stable_ids_follow_from_names(tmp_path: Path) -> None:
    plan = planned(tmp_path, "", Options(adapter=AdapterChoice.NONE, param_ids=ParamIdChoice.STABLE), a=(1,), b=(1,))
    assert {step.name: step.param_id for step in plan.tensors} == stable_ids(["a", "b"])
