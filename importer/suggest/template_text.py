"""Units of a target as the text of a `target:` section: one line a layer, equal neighbours in a list folded into a loop.

Not here: what the units are (`importer.suggest.target_modules`), and what else a recipe holds (`importer.suggest.recipe_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from importer.errors import printable
from importer.recipes.reading.template_schema import RESERVED_KEYS
from importer.suggest.quoting import quoted
from importer.suggest.target_modules import TargetModule

__all__ = ["Line", "doubt_about", "target_lines", "template_text"]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_RESERVED = {one.name for one in RESERVED_KEYS}
_LOOP_NAMES = "ijklmopq"
_COMMENT_COLUMN = 60
_MAX_DEPTH = 64
"""Levels of a template; what a path has beyond stands in its last key."""
_SAME_TENSORS = {"LayerNorm": "GroupNorm, InstanceNorm", "RmsNorm": "LayerNorm(d, bias=False)"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of YAML and the comment beside it."""

    text: str
    comment: str = ""

    def indented(self) -> Line:
        """Return it one level deeper."""
        return Line(f"  {self.text}", self.comment)

    def __str__(self) -> str:
        return f"{self.text:<{_COMMENT_COLUMN}}  # {printable(self.comment)}" if self.comment else self.text


@dataclass(slots=True)
class _Node:
    """A segment of paths, with the line of the layer that stands at it, if one does.

    The lines below it are kept by depth: they are compared with those of its neighbours before they are printed, and each
    level would double the work of the one below.
    """

    children: dict[str, _Node] = field(default_factory=dict)
    layer: Line | None = None
    lines: dict[int, tuple[Line, ...]] = field(default_factory=dict)


def template_text(units: Sequence[TargetModule]) -> str:
    """Return a `target:` section that declares exactly the parameters of `units`, doubts in comments."""
    lines = target_lines((unit.path, unit.candidates[0].text(), doubt_about(unit)) for unit in units)
    return "\n".join(["target:", *(str(line.indented()) for line in lines)]) + "\n"


def doubt_about(unit: TargetModule) -> str:
    """Return what the parameters of a unit leave open, or "" if they say it all.

    What begins with `check:` decides about values; the rest names layers that would be written the same.
    """
    first, others = unit.candidates[0], [candidate.kind for candidate in unit.candidates[1:]]
    if {"Linear", "Embedding"} <= unit.kinds:
        return f"check: {first.kind} or {others[0]}?"
    if first.args.get("layout") == "col":
        return "check: LinearLayout::Col, to judge by the bias"
    if first.args.get("groups", 1) != 1:
        return "groups: to judge by the one input channel"
    if first.kind in _SAME_TENSORS:
        return f"or {_SAME_TENSORS[first.kind]}"
    return f"or {others[0]}" if first.kind.startswith("Conv") and others else ""


def target_lines(layers: Iterable[tuple[str, str, str]]) -> Iterator[Line]:
    """Yield the lines below `target:`.

    Args:
        layers: path, layer call and comment of each module, in order.
    """
    root = _Node()
    for path, call, comment in layers:
        node = root
        for segment in path.split(".", _MAX_DEPTH):
            node = node.children.setdefault(segment, _Node())
        node.layer = Line(call, comment)
    yield from _children(root, 0)


def _children(node: _Node, depth: int, prefix: str = "") -> Iterable[Line]:
    """Return what stands below a node; runs of equal list elements become loops."""
    if prefix:
        return _made(node, depth, prefix)
    if depth not in node.lines:
        node.lines[depth] = tuple(_made(node, depth, prefix))
    return node.lines[depth]


def _made(node: _Node, depth: int, prefix: str) -> Iterator[Line]:
    for segment, child in node.children.items():
        key, end = _collapsed(prefix + segment, child)
        if end.layer is None and all(name.isdecimal() for name in end.children):
            yield from _list(key, end.children, depth)
        else:
            yield from _entry(key, end, depth)


def _collapsed(key: str, node: _Node) -> tuple[str, _Node]:
    """Follow single named children: their path is one key."""
    while node.layer is None and len(node.children) == 1:
        segment, child = next(iter(node.children.items()))
        if segment.isdecimal():
            break
        key, node = f"{key}.{segment}", child
    return key, node


def _entry(key: str, node: _Node, depth: int) -> Iterator[Line]:
    if node.layer is None:
        yield Line(f"{_key(key)}:")
        yield from (line.indented() for line in _children(node, depth))
    else:
        yield Line(f"{_key(key)}: {node.layer.text}", node.layer.comment)
        # A key has one value: what lies below a layer stands beside it.
        yield from _children(node, depth, f"{key}.")


def _list(key: str, elements: Mapping[str, _Node], depth: int) -> Iterator[Line]:
    """Yield the elements of a list, equal neighbours as one loop."""
    loops = 0
    for first, last, node in _runs(elements, depth + 1):
        if first == last:
            yield from _entry(*_collapsed(f"{key}.{first}", node), depth)
            continue
        loops += 1
        # Keys must differ: the second loop over one list counts with another name.
        name = f"{_LOOP_NAMES[min(depth, len(_LOOP_NAMES) - 1)]}{loops if loops > 1 else ''}"
        span = f"range({last + 1})" if first == 0 else f"range({first}, {last + 1})"
        yield Line(f"{quoted(f'{key}.{{{name}}}')}:")
        yield Line(f"  for: {{{name}: '{span}'}}" if "," in span else f"  for: {{{name}: {span}}}")
        if node.layer is not None:
            yield Line(f"  is: {node.layer.text}", node.layer.comment)
        yield from (line.indented() for line in _children(node, depth + 1))


def _runs(elements: Mapping[str, _Node], depth: int) -> Iterator[tuple[int, int, _Node]]:
    """Yield first number, last number and contents of every run of equal neighbours."""
    run: tuple[int, int, _Node] | None = None
    lines: list[Line] = []
    for name, node in elements.items():
        number = int(name)
        own = [*([node.layer] if node.layer else []), *_children(node, depth)]
        if run is not None and number == run[1] + 1 and own == lines:
            run = (run[0], number, run[2])
            continue
        if run is not None:
            yield run
        run, lines = (number, number, node), own
    if run is not None:
        yield run


def _key(key: str) -> str:
    if key in _RESERVED:
        # A module may be called like a word of the language; as an expression it is a path.
        return f"'{{\"{key}\"}}'"
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _YAML_WORDS else quoted(key)
