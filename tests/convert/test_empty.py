"""A source without any tensor is refused: an empty file would look like a result."""

from __future__ import annotations

from pathlib import Path

import pytest

import importer
from importer.errors import UnsupportedError
from tests.builders.pickles import dump, ordered
from tests.builders.zips import Entry, build_zip


@pytest.mark.parametrize("recipe", ["auto", "none"])
def test_nothing_is_written_for_a_source_without_tensors(tmp_path: Path, recipe: str) -> None:
    source, output = tmp_path / "model.pt", tmp_path / "model.bpk"
    source.write_bytes(build_zip([Entry("m/data.pkl", dump({"state_dict": ordered()}))]))
    with pytest.raises(UnsupportedError, match="no tensor"):
        importer.convert(source, output, recipe=recipe)
    assert not output.exists()
