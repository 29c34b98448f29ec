"""The import order of docs/architecture.md holds, and nothing forbidden is imported anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "importer"

# A part may import parts of earlier lines only; parts on one line do not import each other.
LINES: tuple[tuple[str, ...], ...] = (
    ("errors", "_version"),
    ("limits", "problems", "system", "cbor"),
    ("options", "budgets", "dtypes", "temporary"),
    ("storages",),
    ("arrays", "unpickling"),
    ("containers", "quantized"),
    ("checkpoint",),
    ("adapters", "merging"),
    ("recipes", "writers"),
    ("plan",),
    ("report",),
    ("conversion", "suggest"),
    ("rust",),
    ("cli",),
    ("__main__",),
)
LINE_OF = {part: number for number, line in enumerate(LINES) for part in line}
FORBIDDEN = {"torch", "pickle", "_pickle", "pickletools", "shelve", "marshal", "dill", "joblib", "runpy"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_the_page_lists_the_same_lines() -> None:
    """The table of docs/architecture.md is this order; the version and the program's entry need no row there."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)/?` \|", (PACKAGE.parent / "docs/architecture.md").read_text(), re.MULTILINE)
    listed = [tuple(part for line, part in rows if int(line) == number) for number in range(1, int(rows[-1][0]) + 1)]
    assert listed == [
        tuple(sorted(set(line) - {"_version", "__main__"}, key=line.index)) for line in LINES if line != ("__main__",)
    ]


def imports_of(path: Path) -> Iterator[str]:
    """Yield every module name that the file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_part_imports_only_from_lines_above_it(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return
    assert part in LINE_OF, f"{part} has no line in docs/architecture.md"
    for name in imports_of(path):
        root, _, rest = name.partition(".")
        if root != "importer":
            continue
        other = rest.partition(".")[0]
        assert other, f"{path.name} imports the package root"
        assert other == part or LINE_OF[other] < LINE_OF[part], f"{path.name} ({part}) imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_runs_or_needs_torch_is_imported(path: Path) -> None:
    assert FORBIDDEN.isdisjoint(name.partition(".")[0] for name in imports_of(path))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_evaluated_or_executed(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls.isdisjoint({"eval", "exec", "compile", "__import__"})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_holds(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert len(docstring) > 40


def test_no_public_class_and_no_module_has_the_name_of_another() -> None:
    """One word for one thing: who reads a name need not ask which of two is meant."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        if path.name != "__init__.py":
            places.setdefault(path.stem, []).append(str(path.relative_to(PACKAGE)))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(f"class {node.name}", []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_is_part_of_a_circle() -> None:
    """Imports inside functions count: they serve start-up, never a circle."""
    files = {".".join(("importer", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in MODULES}
    imported = {name: set(_imports_at_run_time(path)) & files.keys() for name, path in files.items()}
    while leaves := [name for name, others in imported.items() if not others & imported.keys()]:
        for name in leaves:
            del imported[name]
    assert imported == {}


def _imports_at_run_time(path: Path) -> Iterator[str]:
    """Yield modules that are imported from, not those named for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
