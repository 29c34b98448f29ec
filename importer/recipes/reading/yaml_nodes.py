"""YAML text as a tree that knows its places: scalars, lists and mappings with line and column.

Only the part of YAML a recipe needs: one document, no anchors, aliases or tags, keys that are plain text and occur once;
`yes`, `no`, `on`, `off` and dates are text. What is left out is a fault with its place, and reading goes on behind it,
so that all faults are told at once. Not here: what the nodes mean (`importer.recipes.reading.schema`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from importer.errors import shown
from importer.recipes.faults import Faults

if TYPE_CHECKING:
    import yaml

__all__ = ["ListNode", "MappingNode", "Node", "Scalar", "parse_yaml"]

_MAX_DEPTH = 30
"""Nesting of lists and mappings. The deepest real template has 6."""

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_MAX_INTEGER_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Scalar:
    """A word, a text or a number.

    Attributes:
        text: after YAML's unquoting.
        quoted: whether it stood in quotes or a block, which makes it text whatever it looks like.
        line: counted from 1.
        column: counted from 1.
        indent: columns from `column` to the first character of the text; None where the text spans lines.
    """

    text: str
    quoted: bool
    line: int
    column: int
    indent: int | None = 0

    @property
    def value(self) -> str | int | bool | None:
        """The value by YAML 1.2's core rules, without floats."""
        if self.quoted:
            return self.text
        if self.text in _NULLS:
            return None
        if self.text in _BOOLS:
            return _BOOLS[self.text]
        digits = self.text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_INTEGER_DIGITS:
            return int(self.text)
        return self.text


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    items: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping; keys are scalars, in file order, each once."""

    pairs: tuple[tuple[Scalar, Node], ...]
    line: int
    column: int


Node: TypeAlias = "Scalar | ListNode | MappingNode"


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet; `key` is set while a mapping waits for a value."""

    is_mapping: bool
    line: int
    column: int
    items: list[Node] = field(default_factory=list)
    pairs: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    key: Scalar | None = None
    skip_value: bool = False


def parse_yaml(text: str, faults: Faults) -> Node | None:
    """Return the root node of the first document, or None if the text is no YAML at all.

    Every fault goes to `faults`; after a syntax error nothing more is read.
    """
    import yaml

    builder = _TreeBuilder(faults)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
            if builder.stopped:
                return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        how = "Quote patterns with single quotes; indent with spaces."
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        faults.add(f"this is no valid YAML ({error.problem})", how=how, line=line, column=column)
        return None
    except yaml.YAMLError as error:
        faults.add(f"this is no valid YAML ({shown(error)})", how="Save it as plain UTF-8 text.", line=1, column=1)
        return None
    return builder.root


class _TreeBuilder:
    """Builds the tree from the parser's events, without recursion."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.root: Node | None = None
        self.stopped = False
        self._open: list[_Open] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Take one event."""
        import yaml

        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fault(event, "a second document starts here", "Put each recipe into a file of its own.")
                self.stopped = True
        elif isinstance(event, yaml.AliasEvent):
            self._fault(event, f"the alias *{event.anchor} is not allowed", "Write the value out.")
            self._add(Scalar("", quoted=False, line=_line(event), column=_column(event)))
        elif isinstance(event, yaml.NodeEvent):
            self._check_plain(event)
            self._take_node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _take_node(self, event: yaml.NodeEvent) -> None:
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            self._add(_scalar(event))
            return
        if len(self._open) >= _MAX_DEPTH:
            self._fault(event, "lists and mappings are nested too deeply", f"Keep it below {_MAX_DEPTH} levels.")
            self.stopped = True
            return
        self._open.append(_Open(isinstance(event, yaml.MappingStartEvent), _line(event), _column(event)))

    def _check_plain(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if event.anchor:
            self._fault(
                event, f"the anchor &{event.anchor} is not allowed", "Remove it, and write repeated values out."
            )
        if tag:
            self._fault(event, f"the tag {shown(tag)} is not allowed", "Remove it.")

    def _close(self) -> None:
        done = self._open.pop()
        if done.is_mapping:
            self._add(MappingNode(tuple(done.pairs.values()), done.line, done.column))
        else:
            self._add(ListNode(tuple(done.items), done.line, done.column))

    def _add(self, node: Node) -> None:
        """Put a finished node where it belongs."""
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.key is None and not parent.skip_value:
            self._take_key(parent, node)
        else:
            if parent.key is not None:
                parent.pairs[parent.key.text] = (parent.key, node)
            parent.key, parent.skip_value = None, False

    def _take_key(self, parent: _Open, node: Node) -> None:
        if not isinstance(node, Scalar):
            what, how = "a key must be text", "In single quotes, if it holds { or [."
        elif node.text in parent.pairs:
            first = parent.pairs[node.text][0].line
            what, how = f"the key {shown(node.text)} stands twice (first in line {first})", "Merge the two."
        else:
            parent.key = node
            return
        self.faults.add(what, how=how, line=node.line, column=node.column)
        parent.skip_value = True

    def _fault(self, event: yaml.Event, what: str, how: str) -> None:
        self.faults.add(what, how=how, line=_line(event), column=_column(event))


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    quoted = bool(event.style)
    one_line = (
        event.start_mark is not None and event.end_mark is not None and (event.start_mark.line == event.end_mark.line)
    )
    return Scalar(event.value, quoted, _line(event), _column(event), int(quoted) if one_line else None)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _column(event: yaml.Event) -> int:
    return event.start_mark.column + 1 if event.start_mark is not None else 1
