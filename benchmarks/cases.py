"""The cases: an input, our command, what torch would do, and whether `cp` of the output is the measure to keep up with.

Not here: running and printing (`__main__`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import inputs, quantized_inputs

__all__ = ["CASES", "GROWING", "LINEAR_RECIPE", "Case", "Scale"]

LINEAR_RECIPE = r"""recipe: 1
name: every-matrix-a-linear
about: Every module is a Linear, so every matrix is transposed
types:
  - ['\.\d+$', Linear]
"""

_TRANSPOSED = ("--recipe", "linear.yaml")
_AS_IS = ("--recipe", "none")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the inputs are: bytes of the large ones, number of tensors of the others."""

    nbytes: int
    tensors: int


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    Attributes:
        title: what it is called.
        build: writes the input into an empty folder and returns what to open.
        options: of `importer convert`; None stands for `importer inspect`.
        rival: task of `torch_side.py`.
        extension: of the output.
        allowed: largest ratio to `cp` + fsync of the output's bytes that is asked for, or None.
    """

    title: str
    build: Callable[[Path, Scale], Path]
    options: tuple[str, ...] | None
    rival: str
    extension: str = ".bpk"
    allowed: float | None = None


def _halves(folder: Path, scale: Scale) -> Path:
    return inputs.matrices(folder, scale.nbytes, "BFloat16Storage")


def _floats(folder: Path, scale: Scale) -> Path:
    return inputs.matrices(folder, scale.nbytes, "FloatStorage")


def _single(folder: Path, scale: Scale) -> Path:
    return inputs.single(folder, scale.nbytes)


def _tiny(folder: Path, scale: Scale) -> Path:
    return inputs.tiny(folder, scale.tensors)


def _optimizer(folder: Path, scale: Scale) -> Path:
    return inputs.optimizer(folder, max(100, scale.tensors // 10))


def _llama(folder: Path, scale: Scale) -> Path:
    return inputs.llama(folder, scale.nbytes)


def _shards(folder: Path, scale: Scale) -> Path:
    return inputs.shards(folder, scale.nbytes)


def _fp8(folder: Path, scale: Scale) -> Path:
    return quantized_inputs.fp8(folder, scale.nbytes)


def _nf4(folder: Path, scale: Scale) -> Path:
    return quantized_inputs.nf4(folder, scale.nbytes)


CASES = (
    Case("bf16 copy", _halves, _AS_IS, "copy", allowed=1.25),
    Case("bf16 copy, checksums not compared", _halves, (*_AS_IS, "--no-checksums"), "copy", allowed=1.25),
    Case("bf16 transposed", _halves, _TRANSPOSED, "transpose", allowed=1.5),
    Case("bf16 → f32 transposed", _halves, (*_TRANSPOSED, "--dtype", "f32"), "widen", allowed=1.5),
    Case("f32 transposed", _floats, _TRANSPOSED, "transpose", allowed=1.5),
    Case("llama recipe", _llama, ("--recipe", "llama"), "llama", allowed=1.75),
    Case("sharded folder, copy", _shards, _AS_IS, "copy", allowed=1.25),
    Case("fp8 in blocks → bf16", _fp8, _AS_IS, "fp8"),
    Case("fp8 in blocks → bf16 transposed", _fp8, _TRANSPOSED, "fp8-transposed"),
    Case("nf4 → bf16", _nf4, _AS_IS, "nf4"),
    Case("nf4 → bf16 transposed", _nf4, _TRANSPOSED, "nf4-transposed"),
    Case("tiny tensors", _tiny, _AS_IS, "copy"),
    Case("weights out of an optimizer's file", _optimizer, (*_TRANSPOSED, "--root", "model"), "weights"),
    Case("small file", lambda folder, _: inputs.tiny(folder, 10), _AS_IS, "copy"),
    Case("inspect large", _halves, None, "inspect"),
    Case("inspect llama", _llama, None, "inspect"),
    Case("inspect sharded folder", _shards, None, "inspect"),
    Case("inspect optimizer's file", _optimizer, None, "inspect"),
    Case("inspect tiny tensors", _tiny, None, "inspect"),
    Case("inspect small file", lambda folder, _: inputs.tiny(folder, 10), None, "inspect"),
)

GROWING = (
    Case("bf16 copy", _halves, _AS_IS, "copy"),
    Case("bf16 transposed", _halves, _TRANSPOSED, "transpose"),
    Case("one tensor transposed", _single, _TRANSPOSED, "transpose"),
    Case("tiny tensors", _tiny, _AS_IS, "copy"),
)
"""What must grow no faster than its input: the first three in bytes, the last in tensors."""
