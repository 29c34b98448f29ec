"""Run tests with the lowest or the highest versions of the dependencies that pyproject.toml allows.

    python scripts/versions.py lowest|highest [PYTEST ARGUMENTS]

makes a virtual environment of its own under build/, and ends as pytest does. The lowest versions are those the bounds name;
what has no wheel for this Python starts at the first one that has. Without arguments a choice of tests runs that touches
every dependency: bytes of computed tensors, 8-bit floats, patterns, YAML, CBOR. Standard library only.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "tests/arrays/test_transcendental.py",
    "tests/arrays/test_arithmetic.py",
    "tests/arrays/test_sparse.py",
    "tests/convert/test_overflow.py",
    "tests/recipes/test_patterns.py",
    "tests/recipes/test_reading.py",
    "tests/writers/test_burnpack_writer.py",
    "tests/writers/test_safetensors_writer.py",
    "tests/checkpoint/test_beyond.py",
)
_WITH_WHEELS = {("numpy", (3, 12)): "1.26.0", ("numpy", (3, 13)): "2.1.0", ("numpy", (3, 14)): "2.3.2"}
"""Where a bound is older than the first release with a wheel for a Python."""


def dependencies() -> list[str]:
    """Return the package's own requirements, as pyproject.toml has them (`tomllib` came with Python 3.11)."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed)


def lowest(requirement: str) -> str:
    """Return a requirement pinned to its lower bound."""
    name, bound = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9][0-9.]*).*", requirement).groups()  # type: ignore[union-attr]
    first = _WITH_WHEELS.get((name.lower(), sys.version_info[:2]), bound)
    return f"{name}=={max(first, bound, key=lambda version: [int(part) for part in version.split('.')])}"


def main(which: str, arguments: list[str]) -> int:
    """Install and test; return pytest's exit code."""
    wanted = [lowest(one) for one in dependencies()] if which == "lowest" else dependencies()
    folder = ROOT / "build" / f"versions-{which}"
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--prefer-binary",
    ]
    subprocess.run([*pip, "--upgrade", *wanted, "-e", f"{ROOT}[test]"], check=True)
    subprocess.run([python, "-m", "pip", "list", "--disable-pip-version-check"], check=True)
    tests = arguments or [test for test in TESTS if (ROOT / test).exists()]
    return subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in (["lowest"], ["highest"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
