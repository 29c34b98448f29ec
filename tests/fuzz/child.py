"""The process that tries mutants, one after another, under limits of memory and time that the kernel enforces.

    python -m tests.fuzz.child SEED FIRST LAST

prints a line before each mutant and one after it: `begin 17`, then `ok`, `refused CorruptContainerError`, or `find …`
with a traceback on one line. Where it dies, the mutant begun last is the reason. Not here: the judgement (`series`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from importer.arrays import to_numpy
from importer.checkpoint import Checkpoint, open_checkpoint
from importer.cli import main as importer_main
from importer.conversion import convert
from importer.errors import ImporterError
from importer.recipes import apply_recipe, load_recipe
from tests.builders.named import of_shapes
from tests.fuzz.corpus import Sample
from tests.fuzz.mutations import mutant

MEMORY_BYTES = 384 << 20
"""Beyond what the process holds with everything imported. Samples have 64 KB; the largest free allowance is 64 MiB."""

CPU_SECONDS = 10.0
"""Of processor time for one mutant, so that a busy machine changes nothing."""

_READ_BYTES = 1 << 20
_REFUSED = 3
_NAMES = [f"model.{part}" for part in ("embed_tokens.weight", "layers.0.self_attn.q_proj.weight", "layers.11.mlp.bias",
                                       "norm.weight")]  # fmt: skip
_CONFIG = {"hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 8, "model_type": "llama"}


class Find(Exception):  # noqa: N818 - what a fuzzer finds is a find
    """A mutant was neither read nor refused as it should be."""


def attempt(sample: Sample, folder: Path) -> str:
    """Put a mutant into a folder, do with it what a user would, and return what came of it."""
    for name, data in sample.files.items():
        (folder / name).write_bytes(data)
    path = folder / sample.main
    try:
        if sample.is_recipe:
            apply_recipe(load_recipe(path), of_shapes(dict.fromkeys(_NAMES, (4, 4))), _CONFIG)
        else:
            if sample.task != "open":
                _command(sample.task, path, folder)
            _list(path)
            _read(path, open_checkpoint(path, sparse="dense", quantized="dequantize"), folder / "out.bpk")
    except ImporterError as error:
        _check_message(error)
        return f"refused {type(error).__name__}"
    return "ok"


def _command(task: str, path: Path, folder: Path) -> None:
    """Run a command of the command line; whatever it says has to be fit for a terminal, and no internal error."""
    printed, told = io.StringIO(), io.StringIO()
    commands = {
        "convert": [["convert", str(path), str(folder / "auto.bpk"), "--dry-run"]],
        "suggest": [["suggest", str(path), "--target", str(folder / "t.safetensors")], ["template", str(path)]],
    }
    for command in commands[task]:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            code = importer_main(["--debug", *command])
        if code not in {0, 1, 2, 3, 4}:
            raise Find(f"{task} ended with {code}")
    if not all(line.isprintable() for text in (printed, told) for line in text.getvalue().split("\n")):
        raise Find(f"{task} prints characters that a terminal would obey")


def _read(path: Path, checkpoint: Checkpoint, output: Path) -> None:
    """Read the small tensors of a checkpoint, and convert it if it is small."""
    for tensor in (*checkpoint.tensors.values(), *checkpoint.arrays.values()):
        if tensor.nbytes <= _READ_BYTES:
            with contextlib.suppress(ImporterError):
                to_numpy(tensor.array)
    if sum(tensor.nbytes for tensor in checkpoint.tensors.values()) <= _READ_BYTES:
        convert(path, output, recipe="none", overwrite=True)


def _list(path: Path) -> None:
    """List a checkpoint both ways; raises what opening it raises."""
    open_checkpoint(path)
    listed, parsed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(listed):
        code = importer_main(["--debug", "inspect", "--all", str(path)])
    with contextlib.redirect_stdout(parsed):
        code |= importer_main(["--debug", "inspect", "--json", str(path)])
    if code == _REFUSED:
        return  # it looks at records that opening leaves alone
    if code:
        raise Find(f"inspect ended with {code} for a file that opens")
    if not all(line.isprintable() for line in listed.getvalue().splitlines()):
        raise Find("the listing holds characters that a terminal would obey")
    json.loads(parsed.getvalue())


def _check_message(error: ImporterError) -> None:
    if not error.what or not error.how:
        raise Find("the error does not say what is wrong and what to do")
    if not all(line.isprintable() for line in str(error).split("\n")):
        raise Find("the message holds characters that a terminal would obey")


@contextlib.contextmanager
def bounded_time() -> Iterator[None]:
    """Have the kernel end the process where a mutant takes too long; no handler could stop a loop inside C."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def bound_memory() -> None:
    """Bound the address space to what is in use now and `MEMORY_BYTES` more."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _say(line: str) -> None:
    """Tell the parent at once: the process may not live to flush."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(seed: int, first: int, last: int) -> None:
    """Try mutants `first` up to but without `last`."""
    warnings.simplefilter("error")
    mutant(seed, first)
    bound_memory()
    for number in range(first, last):
        _say(f"begin {number}")
        sample = mutant(seed, number)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, bounded_time():
            try:
                outcome = attempt(sample, Path(folder))
            except (Exception, SystemExit):  # noqa: BLE001 - whatever else comes out is what is looked for
                outcome = f"find {traceback.format_exc()!r}"
        _say(outcome)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
