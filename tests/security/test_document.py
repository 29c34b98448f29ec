"""docs/security.md lists exactly the attacks that are tested, with what happens to each."""

from __future__ import annotations

import re

from tests.security.attacks import ATTACKS
from tests.shared import REPOSITORY


def test_the_document_lists_every_attack_and_its_outcome() -> None:
    text = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8").partition("## The ways in")[2]
    listed = re.findall(r"^\| (?!attack \||---)(.+) \| ([a-z-]+) \|$", text, re.MULTILINE)
    assert listed == [(attack.name, attack.expected.code if attack.expected else "read") for attack in ATTACKS]


def test_no_two_attacks_have_one_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
