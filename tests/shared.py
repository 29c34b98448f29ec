"""Where test data lies: the repository's own fixtures, and the larger shared set that may stand beside the repository."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "fixtures"
FAMILIES = FIXTURES / "families"
SHARED = REPOSITORY.parent / "shared"
