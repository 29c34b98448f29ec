"""What a container says of itself: versions, byte order, alignment, sizes of its storages."""

from __future__ import annotations

import pytest

from importer.checkpoint import open_checkpoint
from tests.builders.states import COUNTS, WEIGHT, table
from tests.builders.streams import legacy_stream
from tests.builders.tables import burnpack, safetensors, safetensors_entry
from tests.builders.zips import Entry, build_zip, torch_entries, torch_zip
from tests.containers.conftest import Save

SIZES = {"0": len(WEIGHT.data), "1": len(COUNTS.data)}


def test_the_records_of_an_archive_are_told(save: Save) -> None:
    more = [
        Entry("archive/byteorder", b"little"),
        Entry("archive/.format_version", b"1"),
        Entry("archive/.storage_alignment", b"64"),
        Entry("archive/.data/serialization_id", b"123"),
    ]
    facts = open_checkpoint(save(build_zip([*torch_entries(), *more]))).facts()
    assert facts == {
        "version": "3",
        "format_version": "1",
        "byte_order": "little",
        "alignment": 64,
        "serialization_id": "123",
        "python_version": None,
        "storages": SIZES,
        "bytes_before": 0,
    }


def test_what_an_old_archive_does_not_say_is_none(save: Save) -> None:
    facts = open_checkpoint(save(torch_zip())).facts()
    assert (facts["byte_order"], facts["alignment"], facts["storages"]) == (None, None, SIZES)


def test_a_legacy_stream_tells_its_system(save: Save) -> None:
    checkpoint = open_checkpoint(save(legacy_stream()))
    facts = checkpoint.facts()
    assert (facts["version"], facts["byte_order"], facts["storages"]) == ("1001", "little", SIZES)
    assert not checkpoint.notes


@pytest.mark.parametrize("system", [table({}), b"]", b"N"], ids=["empty", "list", "none"])
def test_a_legacy_stream_without_its_byte_order_is_read_with_a_note(save: Save, system: bytes) -> None:
    checkpoint = open_checkpoint(save(legacy_stream(system=system)))
    assert checkpoint.facts()["byte_order"] is None
    assert any("does not say its byte order" in note for note in checkpoint.notes)
    first, *_ = checkpoint.tensors.values()
    assert first.numpy().tobytes() == WEIGHT.data


def test_tables_tell_their_parts(save: Save) -> None:
    data = safetensors({"w": safetensors_entry("U8", [1], 0, 1)}, b"\x01")
    facts = open_checkpoint(save(data, "m.safetensors")).facts()
    assert facts == {"byte_order": "little", "header_bytes": len(data) - 9, "data_bytes": 1}
    facts = open_checkpoint(save(burnpack({"tensors": {}}), "m.bpk")).facts()
    assert (facts["version"], facts["byte_order"]) == (1, "little")
