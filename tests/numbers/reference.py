"""Recorded cases: state dict, inputs and output of a torch module (`fixtures/scripts/reference_outputs.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from importer.adapters import LAYERS, Args
from tests.adapters.samples import Values, lazy, pieces

NUMBERS = Path(__file__).resolve().parents[2] / "fixtures" / "numbers"


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded run of a module."""

    state: dict[str, Values]
    inputs: tuple[Values, ...]
    output: Values

    def in_burn(self, kind: str, args: Args | None = None) -> dict[str, Values]:
        """Return the parameters as the layer kind hands them to Burn."""
        return pieces(LAYERS[kind].to_burn({name: lazy(values) for name, values in self.state.items()}, args or {}))


def case(name: str) -> Case:
    """Read a recorded case."""
    tensors = load_file(NUMBERS / f"{name}.safetensors")
    state = {key.removeprefix("state."): value for key, value in tensors.items() if key.startswith("state.")}
    inputs = tuple(tensors[key] for key in sorted(tensors) if key.startswith("input."))
    return Case(state, inputs, tensors["output"])


def assert_close(ours: Values, theirs: Values) -> None:
    """Compare to float32 rounding of sums of this size."""
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
