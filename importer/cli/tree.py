"""A checkpoint's tensors as a tree for people: sizes at every branch, runs of equal layers folded into one.

Not here: what else `inspect_command` tells (`importer.cli.inspect_command`). Names are untrusted: depth is bounded and every piece is
escaped before it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from importer.checkpoint import Tensor
from importer.errors import printable

__all__ = ["human_size", "tree_lines"]

_MAX_DEPTH = 64
_STEP = 1000.0


def human_size(count: int) -> str:
    """Return a byte count in decimal units, three digits where they say something."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < _STEP or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= _STEP
    raise AssertionError


@dataclass(slots=True)
class _Branch:
    """One dotted level: the tensor of that very name, if any, and what lies below."""

    tensor: Tensor | None = None
    children: dict[str, _Branch] = field(default_factory=dict)
    nbytes: int = 0
    count: int = 0
    shape_id: int = 0


def tree_lines(tensors: Iterable[Tensor], *, fold: bool) -> Iterator[str]:
    """Yield the lines of the tree; with `fold`, neighbouring numbered branches that are alike are shown once."""
    top = _Branch()
    for tensor in tensors:
        branch = top
        nbytes = tensor.nbytes
        for piece in tensor.name.split(".", _MAX_DEPTH):
            inner = branch.children.get(piece)
            if inner is None:
                inner = branch.children[piece] = _Branch()
            branch = inner
            branch.nbytes += nbytes
            branch.count += 1
        branch.tensor = tensor
    _number_shapes(top, {})
    yield from _lines(top, "", fold=fold)


def _number_shapes(branch: _Branch, known: dict[object, int]) -> None:
    """Give branches the same `shape_id` if and only if they hold the same relative names, dtypes and shapes."""
    for child in branch.children.values():
        _number_shapes(child, known)
    own = None if branch.tensor is None else (branch.tensor.dtype.name, branch.tensor.shape)
    key = (own, tuple((name, child.shape_id) for name, child in branch.children.items()))
    branch.shape_id = known.setdefault(key, len(known))


def _lines(branch: _Branch, indent: str, *, fold: bool) -> Iterator[str]:
    groups = list(_folded(branch) if fold else _unfolded(branch))
    for position, (label, child, alike) in enumerate(groups):
        last = position == len(groups) - 1
        while len(child.children) == 1 and child.tensor is None:
            piece, child = next(iter(child.children.items()))  # noqa: PLW2901 - a chain of single children is one line
            label = f"{label}.{piece}"  # noqa: PLW2901
        yield f"{indent}{'└─' if last else '├─'} {printable(label)}{_facts(child, alike)}"
        yield from _lines(child, f"{indent}{'   ' if last else '│  '}", fold=fold)


def _facts(branch: _Branch, alike: int) -> str:
    """Return dtype and shape of a tensor, or the totals of a branch, and how many there are like it."""
    repeated = f"  × {alike}" if alike > 1 else ""
    if branch.tensor is None:
        return f"{repeated}  ({branch.count * alike} tensors, {human_size(branch.nbytes * alike)})"
    kind = f"  {branch.tensor.module_type.rpartition('.')[2]}" if branch.tensor.module_type else ""
    shape = "×".join(map(str, branch.tensor.shape)) or "scalar"
    return f"{repeated}  {branch.tensor.dtype} {shape}  {human_size(branch.tensor.nbytes)}{printable(kind)}"


def _unfolded(branch: _Branch) -> Iterator[tuple[str, _Branch, int]]:
    for name, child in branch.children.items():
        yield name, child, 1


def _folded(branch: _Branch) -> Iterator[tuple[str, _Branch, int]]:
    """Yield (label, branch, count), one for each run of consecutive numbers with branches that are alike."""
    run: list[tuple[str, _Branch]] = []
    for name, child in branch.children.items():
        if run and not _continues(run, name, child):
            yield _as_run(run)
            run = []
        run.append((name, child))
    if run:
        yield _as_run(run)


def _continues(run: list[tuple[str, _Branch]], name: str, child: _Branch) -> bool:
    """Whether the branch is the next number of the run and alike."""
    before, branch = run[-1]
    if not (_is_number(name) and _is_number(before) and branch.shape_id == child.shape_id):
        return False
    return int(name) == int(before) + 1


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10  # noqa: PLR2004 - nine digits: a layer number, not a hash


def _as_run(run: list[tuple[str, _Branch]]) -> tuple[str, _Branch, int]:
    first, branch = run[0]
    return (first if len(run) == 1 else f"{first}–{run[-1][0]}"), branch, len(run)
