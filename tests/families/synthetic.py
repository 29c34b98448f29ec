"""Checkpoints made from recorded key lists (`fixtures/keys`): real names, shapes and element types, made-up values.

Values depend on a tensor's name and shape, tied tensors have equal ones, so no two different tensors agree by chance. Not
here: which recipe a family is for, and the ways in which published files differ (`test_builtin_recipes`).
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.builders.tables import safetensors, safetensors_entry

KEYS = Path(__file__).resolve().parents[2] / "fixtures" / "keys"

_DTYPES = {"float32": ("F32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2), "int64": ("I64", 8)}

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor of a key list; `tied_to` names the tensor whose values it shares."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    tied_to: str = ""

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * _DTYPES[self.dtype][1]


@dataclass(frozen=True, slots=True)
class Family:
    """A recorded checkpoint: its config.json and its tensors."""

    name: str
    config: dict[str, object]
    rows: tuple[Row, ...]

    def renamed(self, *pairs: tuple[str, str]) -> Family:
        """Return it with text in names replaced, each pair in turn; `tied_to` follows."""

        def new(name: str) -> str:
            for old, fresh in pairs:
                name = name.replace(old, fresh)
            return name

        return replace(
            self, rows=tuple(replace(row, name=new(row.name), tied_to=new(row.tied_to)) for row in self.rows)
        )

    def without(self, *parts: str) -> Family:
        """Return it without the tensors whose names contain one of these."""
        return replace(self, rows=tuple(row for row in self.rows if not any(part in row.name for part in parts)))

    def unprefixed(self, prefix: str) -> Family:
        """Return it with a prefix cut off where names have it."""
        rows = (
            replace(row, name=row.name.removeprefix(prefix), tied_to=row.tied_to.removeprefix(prefix))
            for row in self.rows
        )
        return replace(self, rows=tuple(rows))

    def with_rows(self, *rows: Row) -> Family:
        return replace(self, rows=(*self.rows, *rows))

    def configured(self, **fields: object) -> Family:
        return replace(self, config={**self.config, **fields})

    @property
    def untied(self) -> Family:
        """What a safetensors file holds: no tensor twice."""
        return replace(self, rows=tuple(row for row in self.rows if not row.tied_to))


def load(name: str) -> Family:
    """Return a recorded family."""
    folder = KEYS / name
    rows = json.loads((folder / "keys.json").read_text(encoding="utf-8"))
    return Family(
        name=name,
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        rows=tuple(Row(row["name"], tuple(row["shape"]), row["dtype"], row.get("tied_to", "")) for row in rows),
    )


def values(name: str, shape: tuple[int, ...]) -> Floats:
    """Return the values of a float32 tensor of that name."""
    generator = np.random.default_rng(zlib.crc32(f"{name} {shape}".encode()))
    return generator.standard_normal(shape, dtype=np.float32)


def write(family: Family, folder: Path) -> Path:
    """Write config.json and model.safetensors whose tensors differ in their first bytes only; the rest is a hole."""
    folder.mkdir(parents=True, exist_ok=True)
    header, starts = _header(family)
    path = _write_config(family, folder)
    with path.open("wb") as file:
        head = file.write(safetensors(header))
        file.truncate(head + sum(row.nbytes for row in family.rows))
        for row, start in zip(family.rows, starts, strict=True):
            file.seek(head + start)
            mark = zlib.crc32((row.tied_to or row.name).encode()).to_bytes(4, "little") + b"\x3c\x3c\x3c\x3c"
            file.write(mark[: row.nbytes])
    return path


def write_values(family: Family, folder: Path) -> Path:
    """Write config.json and model.safetensors with every value there; all tensors become float32."""
    folder.mkdir(parents=True, exist_ok=True)
    family = replace(family, rows=tuple(replace(row, dtype="float32") for row in family.rows))
    header, _ = _header(family)
    path = _write_config(family, folder)
    data = b"".join(values(row.tied_to or row.name, row.shape).tobytes() for row in family.rows)
    path.write_bytes(safetensors(header, data))
    return path


def _write_config(family: Family, folder: Path) -> Path:
    if family.config:
        (folder / "config.json").write_text(json.dumps(family.config), encoding="utf-8")
    return folder / "model.safetensors"


def _header(family: Family) -> tuple[dict[str, object], list[int]]:
    header: dict[str, object] = {}
    starts: list[int] = []
    position = 0
    for row in family.rows:
        header[row.name] = safetensors_entry(_DTYPES[row.dtype][0], row.shape, position, position + row.nbytes)
        starts.append(position)
        position += row.nbytes
    return header, starts
