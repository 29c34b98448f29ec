"""Child processes that write outputs, and what is at the target afterwards; shared by the tests of crashes and of races."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import importer
from importer.arrays import to_numpy
from importer.errors import WriteError
from importer.writers import Destination, OutputFormat, OutputTensor, write
from tests.builders.outputs import patterned

__all__ = ["DONE", "KILLED", "ONE_EACH", "REFUSED", "TWO_EACH", "Output", "child", "ended", "outputs"]

DONE, REFUSED, KILLED, FAILED = 0, 4, 77, 78
ONE_EACH, TWO_EACH = 50, 90


@dataclass(frozen=True)
class Output:
    """One output: what it is made of, and whether it is a set of shards."""

    value: int
    shard_size: int | None = None

    @property
    def tensors(self) -> list[OutputTensor]:
        return [patterned(f"{'x' * self.value}{index}", "U8", (40,)) for index in range(3)]

    def write(self, folder: Path, *, overwrite: bool) -> None:
        destination = Destination(
            path=str(folder / "m.safetensors"), format=OutputFormat.SAFETENSORS, shard_size=self.shard_size,
            overwrite=overwrite, workers=1, fingerprint=str(self.value),
        )  # fmt: skip
        write(self.tensors, destination)

    @property
    def contents(self) -> dict[str, bytes]:
        return {tensor.name: to_numpy(tensor.array).tobytes() for tensor in self.tensors}

    @property
    def names(self) -> list[str]:
        if self.shard_size is None:
            return ["m.safetensors"]
        count = 3 if self.shard_size == ONE_EACH else 2
        shards = [f"m-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
        return [*shards, "m.safetensors.index.json"]


def outputs(folder: Path) -> list[dict[str, bytes]]:
    """Return the contents of what is at the target: a file, a set, or both while one replaces the other."""
    places = [folder / "m.safetensors", folder / "m.safetensors.index.json"]
    opened = [importer.open(place) for place in places if place.exists()]
    return [{name: checkpoint[name].numpy().tobytes() for name in checkpoint} for checkpoint in opened]


def child(run: Callable[[], None]) -> int:
    """Run in a process of its own; return its number."""
    number = os.fork()
    if number:
        return number
    try:
        run()
        os._exit(DONE)
    except WriteError:
        os._exit(REFUSED)
    except BaseException:  # noqa: BLE001 - nothing of the child may run on in the test
        traceback.print_exc()
        os._exit(FAILED)


def ended(number: int) -> int:
    """Wait for a process and return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
