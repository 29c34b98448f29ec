"""A burnpack file that nothing changes is copied byte for byte, with what only Burn tells apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import importer
from importer.cbor import Encodable, encode_cbor

QUANTIZED: dict[str, Encodable] = {"QFloat": {"value": "Q8F", "store": {"PackedU32": 0}, "mode": "Symmetric"}}


def burnpack(path: Path) -> Path:
    """Write a file with entries that this package has no words for: stores of booleans, kinds of numbers, packed values."""
    tensors: dict[str, Encodable] = {
        "eight": {"dtype": {"Bool": "U8"}, "shape": (4,), "data_offsets": (0, 4)},
        "packed": {"dtype": QUANTIZED, "shape": (2, 4), "data_offsets": (256, 268), "param_id": 7},
        "thirty-two": {"dtype": {"Bool": "U32"}, "shape": (2,), "data_offsets": (512, 520)},
    }
    table = encode_cbor(
        {"tensors": tensors, "metadata": {"format": "burnpack", "producer": "burn"}, "scalars": {"step": {"Int": 3}}}
    )
    head = b"NRUB\x01\x00" + len(table).to_bytes(4, "little") + table
    head += bytes(-len(head) % 256)
    path.write_bytes(head + bytes([1, 0, 1, 0]).ljust(256, b"\0") + bytes(range(12)).ljust(256, b"\0") + bytes(8))
    return path


def test_a_copy_has_the_same_bytes(tmp_path: Path) -> None:
    source, output = burnpack(tmp_path / "burn.bpk"), tmp_path / "copy.bpk"
    result = importer.convert(source, output)
    assert result.is_success
    assert output.read_bytes() == source.read_bytes()
    assert any("packed" in note for note in result.notes)


@pytest.mark.parametrize("changes", [{"only": "eight"}, {"param_ids": "stable"}])
def test_what_is_to_change_something_is_no_copy(tmp_path: Path, changes: dict[str, object]) -> None:
    output = tmp_path / "changed.bpk"
    result = importer.convert(burnpack(tmp_path / "burn.bpk"), output, **changes)
    assert not output.exists() or output.read_bytes() != (tmp_path / "burn.bpk").read_bytes()
    assert result.errors or result.skipped
