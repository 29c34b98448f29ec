"""Skeletons without a Burn program, and a draft set against what a built-in recipe gives for the same target."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from importer.arrays import full, to_numpy
from importer.checkpoint import Checkpoint, Tensor
from importer.dtypes import F32
from importer.options import DTypeChoice, Options
from importer.plan import Plan, build_plan
from importer.recipes import Recipe, load_recipe, parse_recipe
from importer.suggest import Draft, draft_recipe

Shapes = Mapping[str, tuple[int, ...]]


def checkpoint_of(shapes: Shapes, *, container: str = "zip", config: dict[str, object] | None = None) -> Checkpoint:
    """Return a checkpoint of zeros without a file."""
    tensors = {name: Tensor(name, full(0, F32, shape)) for name, shape in shapes.items()}
    return Checkpoint(paths=("model.pt",), container=container, tensors=tensors, config=config)


def skeleton_of(shapes: Shapes) -> Checkpoint:
    """Return what a fresh Burn model of these parameters would have saved."""
    return checkpoint_of(shapes, container="burnpack")


def target_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the parameters that a burn_target.json lists."""
    return {entry["name"]: tuple(entry["shape"]) for entry in json.loads(path.read_text(encoding="utf-8"))}


@dataclass(frozen=True)
class Comparison:
    """A draft's conversion beside the built-in recipe's: which parameters differ, and which of these nothing warned of."""

    draft: Draft
    drafted: Plan
    differing: frozenset[str]

    @property
    def unannounced(self) -> set[str]:
        announced = {name for mark in self.draft.marks for name in mark.names}
        undecided = {line.split(" ")[0].removesuffix(":") for line in self.draft.undecided}
        return set(self.differing) - announced - undecided


def compare(
    checkpoint: Checkpoint, builtin: str, shapes: Shapes | None = None, disguise: Callable[[str], str] = str
) -> Comparison:
    """Draft for the target of a built-in recipe, and convert with both; every value is compared bit by bit.

    Args:
        checkpoint: the source.
        builtin: the recipe that is right.
        shapes: the target's parameters; by default what the recipe gives.
        disguise: what the target's names are replaced by.
    """
    expected = _planned(checkpoint, load_recipe(builtin))
    target = shapes or {step.name: step.array.shape for step in expected.tensors}
    skeleton = skeleton_of({disguise(name): shape for name, shape in target.items()})
    draft = draft_recipe(checkpoint, skeleton)
    drafted = _planned(checkpoint, parse_recipe(draft.text), skeleton)
    wanted, given = {disguise(name): values for name, values in _values(expected).items()}, _values(drafted)
    return Comparison(draft, drafted, frozenset(name for name in wanted if wanted[name] != given.get(name)))


def disguised(name: str) -> str:
    """Return a name whose words say nothing any more; parameters and numbers stay what they are."""
    return ".".join(
        segment if segment.isdecimal() or _SPEAKING.search(segment) else f"x{zlib.crc32(segment.encode()):08x}"
        for segment in name.split(".")
    )


_SPEAKING = re.compile(r"^(weight|bias|gamma|beta|alpha|running_(mean|var)|forward|reverse)$|gate$|_transform$")


def _planned(checkpoint: Checkpoint, recipe: Recipe, skeleton: Checkpoint | None = None) -> Plan:
    return build_plan(checkpoint, recipe, Options(dtype=DTypeChoice.F32), skeleton)


def _values(plan: Plan) -> dict[str, bytes]:
    return {step.name: to_numpy(step.array).tobytes() for step in plan.tensors}
