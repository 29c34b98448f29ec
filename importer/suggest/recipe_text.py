"""Findings written down as a recipe: sections in the order they apply, every doubt in a comment beside its line.

Not here: the findings (`importer.suggest.drafting`), the rules' form (`renaming`), the template's (`template_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from importer.errors import printable
from importer.suggest.comparison import Comparison, Drop, Move, SplitMove
from importer.suggest.quoting import pattern_text, quoted
from importer.suggest.renaming import rename_rules
from importer.suggest.template_text import Line, target_lines

__all__ = ["recipe_text"]

_LEGEND = {
    " of this shape": "`from …? 1 of 3 of this shape`: only names and order say which of them it is.",
    "norm_first": "`norm_first`: Burn numbers the norms of a layer otherwise than torch if it normalises first.",
    "square": "`square`: a matrix whose shape does not show whether it is to be transposed; the layer's type decides.",
    "rotary": "`rotary`: Burn's RotaryEncoding rotates adjacent pairs, Hugging Face files hold the halves of each head. If the\n"
    "#   model uses it: {match: '<path>.weight$', rearrange: '(h two r) ... -> (h r two) ...', sizes: {h: <heads>, two: 2}}",
    "w - 1": "`w - 1`: if so, {match: '<path>.weight$', map: '1 + x'} under `tensors`.",
}
"""What the short comments mean, for those that occur."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*[A-Za-z0-9_]")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def recipe_text(comparison: Comparison, *, name: str, about: str, names: Sequence[str], dtype: str) -> str:
    """Return the YAML text of the recipe.

    Args:
        comparison: what was found.
        name: the recipe's name.
        about: one line saying what it is for.
        names: every tensor name of the checkpoint.
        dtype: the `dtype` line's value.
    """
    dropped = {dropped for drop in comparison.drops for dropped in drop.names}
    kept = [one for one in names if one not in dropped]
    moves = [
        *comparison.moves,
        *(Move(split.source, _fused_path(split), is_tensor=False) for split in comparison.splits),
    ]
    sections = (
        ("drop", _drop_lines(comparison.drops, kept)),
        ("rename", (Line(f"- {rule}") for rule in rename_rules(moves, kept))),
        (
            "alias",
            (Line(f"{_scalar(tie.name)}: {_scalar(tie.other)}", f"check: {tie.doubt}") for tie in comparison.ties),
        ),
        ("stored_as", _stored_lines(comparison.splits)),
        ("tensors", _split_lines(comparison.splits)),
        ("target", _target_lines(comparison)),
    )
    lines = [*_head(comparison, name, about)]
    for section, body in sections:
        found = [str(line.indented()) for line in body]
        if found:
            lines += [f"{section}:", *found]
    return "\n".join([*lines, f"dtype: {dtype}"]) + "\n"


def _head(comparison: Comparison, name: str, about: str) -> Iterator[str]:
    marks = comparison.marks()
    yield f"# A draft: {len(marks)} things to check, each marked `check:`; {len(comparison.undecided)} undecided."
    yield from (f"# {words}" for begin, words in _LEGEND.items() if any(begin in mark.text for mark in marks))
    yield from (f"# check: {printable(remark.text)}" for remark in comparison.remarks)
    yield from ("recipe: 1", f"name: {name}", f"about: {quoted(about)}")


def _drop_lines(drops: Iterable[Drop], kept: Sequence[str]) -> Iterator[Line]:
    """Yield one pattern for the tensors of one module in every layer."""
    lines: dict[str, str] = {}
    for drop in drops:
        leaves: dict[str, list[str]] = {}
        for dropped in drop.names:
            path, _, leaf = dropped.rpartition(".")
            leaves.setdefault(path, []).append(leaf)
        for path, ends in leaves.items():
            inner = "|".join(map(pattern_text, ends))
            end = f"({inner})$" if len(ends) > 1 else f"{inner}$"
            lines[_open_pattern(path, end, kept)] = drop.reason if drop.is_sure else f"check: {drop.reason}"
    yield from (Line(f"- {quoted(pattern)}", comment) for pattern, comment in lines.items())


def _open_pattern(path: str, end: str, kept: Sequence[str]) -> str:
    """Return a pattern for a path in every layer, or for this path alone where it would touch a name that is kept."""
    prefix = f"^{pattern_text(path)}\\." if path else "^"
    general = (
        "^" + r"\.".join(r"\d+" if s.isdecimal() else pattern_text(s) for s in path.split(".")) + r"\." if path else "^"
    )
    found = re.compile(general + end)
    return (prefix if any(found.search(name) for name in kept) else general) + end


def _stored_lines(splits: Iterable[SplitMove]) -> Iterator[Line]:
    """Yield the paths of fused matrices that lie `[in, out]`."""
    patterns = dict.fromkeys(f"^{_general(_fused_path(split))}$" for split in splits if split.is_in_out)
    if patterns:
        yield Line(f"Conv1D: {quoted('|'.join(patterns))}", "[in, out] in the file: seen as [out, in] from here on")


def _split_lines(splits: Sequence[SplitMove]) -> Iterator[Line]:
    """Yield a step for each kind of fused matrix; one and the same in all layers is one step."""
    steps: dict[tuple[str, str, str], str] = {}
    for split in splits:
        path = _fused_path(split)
        leaf = len(_NUMBER.findall(path)) + 1
        into = ", ".join(quoted(f"{_numbered(target)}.${leaf}") for target in split.targets)
        sizes = str(len(split.sizes)) if len(set(split.sizes)) == 1 else str(list(split.sizes))
        steps[_general(path, "(", ")") + r"\.(weight|bias)$", sizes, into] = split.doubt
    for (pattern, sizes, into), doubt in steps.items():
        yield Line(f"- match: {quoted('^' + pattern)}")
        yield Line(f"  split: {sizes}", f"check: {doubt}")
        yield Line(f"  into: [{into}]")


def _fused_path(split: SplitMove) -> str:
    """Return where a fused module goes before it is split: beside its parts, under its own last word."""
    parent, last = split.targets[0].rpartition(".")[0], split.source.rpartition(".")[2]
    path = f"{parent}.{last}" if parent else last
    return f"{path}_fused" if path in split.targets else path


def _general(path: str, before: str = "", after: str = "") -> str:
    return r"\.".join(rf"{before}\d+{after}" if s.isdecimal() else pattern_text(s) for s in path.split("."))


def _numbered(path: str) -> str:
    """Return a path with its numbers as captures in order."""
    count = iter(range(1, path.count(".") + 2))
    return ".".join(f"${next(count)}" if segment.isdecimal() else segment for segment in path.split("."))


def _target_lines(comparison: Comparison) -> Iterator[Line]:
    yield from target_lines(
        (unit.path, comparison.layers.get(unit.path, unit.candidates[0]).text(), _comment(comparison, unit.path))
        for unit in comparison.units
    )


def _comment(comparison: Comparison, path: str) -> str:
    doubts = comparison.doubts.get(path, [])
    checks = [doubt for doubt in doubts if not doubt.startswith("undecided")]
    undecided = [doubt for doubt in doubts if doubt.startswith("undecided")]
    return "; ".join([*([f"check: {'; '.join(checks)}"] if checks else []), *undecided])


def _scalar(name: str) -> str:
    """Return a name as YAML, unquoted where it is plain."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)
