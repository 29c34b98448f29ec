"""Parameter ids derived from names are the same everywhere and never one twice."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from importer.plan.ids import stable_ids


def test_an_id_is_the_head_of_the_names_digest() -> None:
    assert stable_ids(["fc.weight"]) == {"fc.weight": int.from_bytes(sha256(b"fc.weight").digest()[:8], "little")}


@given(st.lists(st.text(), unique=True))
def test_ids_are_unique_and_do_not_depend_on_the_neighbours(names: list[str]) -> None:
    ids = stable_ids(names)
    assert len(set(ids.values())) == len(names)
    assert all(stable_ids([name])[name] == number for name, number in ids.items())
