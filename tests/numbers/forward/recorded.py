"""Recorded runs of small real models: what a user would hold, inputs, and the outputs PyTorch computed.

A folder holds `config.json` and `model.safetensors`, or `model.pt`, beside `io.safetensors` and `io.json` (what is special,
class, tolerance). They lie in `fixtures/forward`, and in `../shared/forward`, which has more of them and may be absent.
Not here: the models, which are the modules beside this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import importer
from tests.adapters.samples import Values
from tests.numbers.burn_formulas import Params
from tests.shared import FIXTURES, SHARED

ROOTS = (FIXTURES / "forward", SHARED / "forward")


@dataclass(frozen=True, slots=True)
class Run:
    """Converted parameters by their Burn names (in float64), config.json, and recorded inputs."""

    params: Params
    config: dict[str, Any]
    inputs: dict[str, Values]


Forward = Callable[[Run], dict[str, Values]]


def folders() -> Iterator[Path]:
    """Yield every recorded folder; where both roots have it, the shared one."""
    found: dict[str, Path] = {}
    for root in ROOTS:
        found |= {io.parent.relative_to(root).as_posix(): io.parent for io in root.rglob("io.json")}
    for name in sorted(found):
        yield found[name]


def converted(folder: Path, scratch: Path, recipe: str = "auto") -> Run:
    """Convert a folder under `strict` and read the burnpack that was written."""
    source = folder if (folder / "config.json").exists() else folder / "model.pt"
    output = scratch / "converted.bpk"
    result = importer.convert(source, output, strict=True, recipe=recipe, overwrite=True)
    assert result.is_success, result.to_text()
    checkpoint = importer.open(output)
    params = {name: tensor.numpy().astype(np.float64) for name, tensor in checkpoint.tensors.items()}
    config = json.loads((folder / "config.json").read_text()) if source is folder else {}
    io = load_file(folder / "io.safetensors")
    return Run(params, config, {key[3:]: values for key, values in io.items() if key.startswith("in.")})


def check(folder: Path, ours: dict[str, Values], inputs: dict[str, Values], left_out: str = "") -> None:
    """Compare every recorded output, within the folder's tolerance; of padded rows only those of real tokens."""
    about = json.loads((folder / "io.json").read_text())
    io = load_file(folder / "io.safetensors")
    mask = inputs.get("attention_mask")
    for name in about["outputs"]:
        if name == left_out:
            continue
        values, theirs = ours[name], io[f"out.{name}"]
        assert values.shape == theirs.shape
        if mask is not None and values.shape[:2] == mask.shape:
            values, theirs = values[mask > 0], theirs[mask > 0]
        np.testing.assert_allclose(values, theirs, rtol=about["rtol"], atol=about["atol"], err_msg=name)
