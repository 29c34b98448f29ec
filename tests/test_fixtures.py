"""Every fixture is listed with its digest, and every folder says where it comes from and how it was made."""

from __future__ import annotations

import json

import pytest

from fixtures.scripts.manifest import FIXTURES, MANIFEST, manifest

LISTED = json.loads(MANIFEST.read_text(encoding="utf-8"))


def test_the_manifest_is_that_of_the_files() -> None:
    """After adding a fixture: python fixtures/scripts/manifest.py."""
    assert manifest() == LISTED


@pytest.mark.parametrize("folder", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_every_folder_has_an_origin_a_maker_and_a_licence(folder: str) -> None:
    if folder not in {"scripts", "__pycache__"}:
        assert LISTED["folders"][folder].keys() == {"origin", "maker", "licence"}


def test_scripts_that_are_named_as_makers_exist() -> None:
    for entry in LISTED["folders"].values():
        for word in entry["maker"].replace(",", " ").split():
            if word.startswith("fixtures/"):
                assert (FIXTURES.parent / word).exists(), word
