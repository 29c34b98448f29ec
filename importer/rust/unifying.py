"""From names to types: the tree of segments, and which of its nodes are instances of one Rust type.

Elements of a list are one type; a field that some of them lack becomes an `Option`. Siblings whose names differ only in
their number (`layer1` … `layer4`) share a type where they can. Not here: constructors (`lifting`) and text (`rust_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from importer.errors import UnsupportedError, shown
from importer.rust.rust_types import (
    Declared,
    EnumType,
    LayerType,
    ListType,
    PathNode,
    RustType,
    StructField,
    StructType,
    TupleType,
    below,
)

__all__ = ["root_type", "tree_of"]

_LONGEST_TUPLE = 10
"""Burn implements Module for tuples of up to ten (burn-core, module/param/primitive.rs)."""
_KEYWORDS = frozenset(
    [
        "as",
        "async",
        "await",
        "break",
        "const",
        "continue",
        "crate",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "match",
        "mod",
        "move",
        "mut",
        "pub",
        "ref",
        "return",
        "self",
        "static",
        "struct",
        "super",
        "trait",
        "true",
        "type",
        "unsafe",
        "use",
        "where",
        "while",
        "abstract",
        "become",
        "box",
        "do",
        "final",
        "macro",
        "override",
        "priv",
        "try",
        "typeof",
        "unsized",
        "virtual",
        "yield",
    ]
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERS = re.compile(r"\d+")


class _MixedError(Exception):
    """The nodes are not instances of one type."""


def tree_of(layers: Iterable[Declared]) -> PathNode:
    """Return the root of the tree of segments.

    Raises:
        UnsupportedError: a segment cannot be a Rust field, or a layer stands where further modules stand.
    """
    root = PathNode(())
    for layer in layers:
        node = root
        for segment in layer.path:
            _check_segment(segment, layer)
            node = node.children.setdefault(segment, PathNode((*node.path, segment)))
            if node.layer is not None:
                raise _two_things(node)
        if node.children:
            raise _two_things(node)
        node.layer = layer
    return root


def _check_segment(segment: str, layer: Declared) -> None:
    word = segment.strip("<>")
    if word.isdecimal() or (_IDENTIFIER.fullmatch(word) and word not in _KEYWORDS and word != "_"):
        return
    name = ".".join(layer.path)
    raise UnsupportedError(
        f"{shown(segment)} in {shown(name)} cannot be a Rust field",
        how="Rename it in the recipe (rename:), for example to a word of letters, digits and _.",
    )


def _two_things(node: PathNode) -> UnsupportedError:
    return UnsupportedError(
        f"{shown('.'.join(node.path))} is a layer or a parameter and has further modules below it",
        how="Rename one of them in the recipe; a Rust field is one thing.",
    )


def root_type(root: PathNode) -> StructType:
    """Return the type of the whole module.

    Raises:
        UnsupportedError: no Rust type fits: a long list of different layers, numbers at the top.
    """
    if not root.children or root.is_list or root.is_enum:
        raise UnsupportedError(
            "a Rust module needs named fields at the top",
            how="Give the names a prefix in the recipe (rename: ['^', 'model.']).",
        )
    try:
        made = _struct([root])
    except _MixedError as error:
        raise UnsupportedError(
            "the elements of a list are modules of different types", how="Rename them to fields in the recipe."
        ) from error
    _share(made)
    return made


def _unified(nodes: Sequence[PathNode]) -> RustType:
    """Return the one type that all nodes are instances of, instances in the order of `nodes`.

    Raises:
        _MixedError: there is none.
    """
    if all(node.layer is not None for node in nodes):
        return _layer([node.layer for node in nodes if node.layer is not None])
    if any(node.layer is not None for node in nodes):
        raise _MixedError
    forms = {(node.is_list, node.is_enum) for node in nodes}
    if len(forms) > 1:
        raise _MixedError
    if nodes[0].is_list:
        return _list(nodes)
    return _enum(nodes) if nodes[0].is_enum else _struct(nodes)


def _layer(layers: list[Declared]) -> LayerType:
    forms = {(_struct_of(one), _rank(one), one.element) for one in layers}
    if len(forms) > 1:
        raise _MixedError
    kind, rank, element = next(iter(forms))
    return LayerType(kind, rank, element, layers)


def _struct_of(layer: Declared) -> str:
    kind = {"Conv1D": "Linear"}.get(layer.kind, layer.kind)
    return "LinearCol" if kind == "Linear" and layer.args.get("layout") == "col" else kind


def _rank(layer: Declared) -> int:
    """Return the dimensions of a bare parameter."""
    dims = layer.args.get("dims")
    return len(dims) if layer.kind == "Param" and isinstance(dims, tuple) else 0


def _list(nodes: Sequence[PathNode]) -> RustType:
    elements: list[PathNode] = []
    spans: list[list[int | None]] = []
    for node in nodes:
        span: list[int | None] = [None] * (1 + max(map(int, node.children)))
        for name, child in sorted(node.children.items(), key=lambda pair: int(pair[0])):
            span[int(name)] = len(elements)
            elements.append(child)
        spans.append(span)
    try:
        return ListType(_element(elements), spans, [node.path for node in nodes])
    except _MixedError:
        return _tuple(nodes)


def _element(nodes: Sequence[PathNode]) -> RustType:
    """Return the type of a list's elements; what is neither layer nor struct gets a constructor by being wrapped."""
    kind = _unified(nodes)
    if isinstance(kind, LayerType | StructType):
        return kind
    inner = StructField("inner", kind, list(range(len(nodes))))
    return StructType(nodes[0].path, [inner], len(nodes), is_transparent=True)


def _tuple(nodes: Sequence[PathNode]) -> RustType:
    length = max(1 + max(map(int, node.children)) for node in nodes)
    if length > _LONGEST_TUPLE:
        what = f"{shown('.'.join(nodes[0].path))} is a list of {length} modules of different types, and Burn has tuples of up to ten"
        raise UnsupportedError(what, how="Rename its elements to fields in the recipe (rename: ['\\.0\\.', '.conv.']).")
    if length == 1:
        raise _MixedError
    return TupleType(_fields(nodes, [str(number) for number in range(length)]), len(nodes))


def _enum(nodes: Sequence[PathNode]) -> EnumType:
    if any(len(node.children) != 1 for node in nodes):
        raise _MixedError
    names = list(dict.fromkeys(name for node in nodes for name in node.children))
    return EnumType(nodes[0].path, _fields(nodes, names), len(nodes))


def _struct(nodes: Sequence[PathNode]) -> StructType:
    if any(name.isdecimal() for node in nodes for name in node.children):
        raise _mixed_names(nodes[0])
    names = _in_order([list(node.children) for node in nodes])
    return StructType(nodes[0].path, _fields(nodes, names), len(nodes))


def _in_order(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return every name once, in an order that agrees with each row as far as the rows agree with one another."""
    order: list[str] = []
    for row in dict.fromkeys(map(tuple, rows)):
        place = 0
        for name in row:
            if name in order:
                place = max(place, order.index(name) + 1)
            else:
                order.insert(place, name)
                place += 1
    return order


def _mixed_names(node: PathNode) -> UnsupportedError:
    return UnsupportedError(
        f"below {shown('.'.join(node.path) or 'the top')} stand numbers and names side by side",
        how="Rename one of them in the recipe: a Rust type has either fields or elements.",
    )


def _fields(nodes: Sequence[PathNode], names: Sequence[str]) -> list[StructField]:
    """Return the fields of nodes that are one type; siblings that differ in their number only share a type if they can."""
    made: dict[str, StructField] = {}
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(_NUMBERS.sub("#", name) if not name.isdecimal() else name, []).append(name)
    for members in families.values():
        groups = [members] if len(members) > 1 else []
        groups += [[name] for name in members]
        for group in groups:
            if group[0] not in made:
                made.update(_together(nodes, group) or {})
    return [made[name] for name in names]


def _together(nodes: Sequence[PathNode], names: Sequence[str]) -> dict[str, StructField] | None:
    """Return fields of one type for all these names, or None where they are of different types."""
    children: list[PathNode] = []
    places: dict[str, list[int | None]] = {}
    for name in names:
        places[name] = []
        for node in nodes:
            child = node.children.get(name)
            places[name].append(None if child is None else len(children))
            if child is not None:
                children.append(child)
    if not children:
        return {name: StructField(name, _GAP, places[name]) for name in names}
    if len(names) > 1 and children[0].layer is not None:
        return None
    try:
        kind = _unified(children)
    except _MixedError:
        if len(names) > 1:
            return None
        raise
    except UnsupportedError:
        if len(names) > 1:
            return None
        raise
    return {name: StructField(name, kind, places[name]) for name in names}


_GAP = LayerType("Identity", 0, "float", [])
"""What stands in a tuple where torch has a module without weights."""


def _share(root: RustType) -> None:
    """Let structs made of the same layers be one struct, as a person would write them."""
    known: dict[str, StructType] = {}
    for kind in _structs(root):
        if all(isinstance(one.type, LayerType) for one in kind.fields):
            known.setdefault(_signature(kind), kind)
    seen: set[int] = set()
    _replace(root, known, seen)


def _structs(kind: RustType) -> list[StructType]:
    found: dict[int, StructType] = {}
    stack: list[RustType] = [kind]
    seen: set[int] = set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, StructType):
            found[id(one)] = one
        stack += reversed(list(below(one)))
    return list(found.values())


def _signature(kind: StructType) -> str:
    words = [
        f"{one.name}:{one.type.kind}/{one.type.rank}/{one.type.element}{'?' * one.is_optional}"
        for one in kind.fields
        if isinstance(one.type, LayerType)
    ]
    return " ".join(words)


def _replace(kind: RustType, known: dict[str, StructType], seen: set[int]) -> None:
    """Put the shared struct in the place of its equals, with their instances behind its own."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    moved: dict[int, tuple[StructType, int]] = {}
    holders = kind.fields if isinstance(kind, StructType | TupleType | EnumType) else []
    for one in holders:
        _replace(one.type, known, seen)
        if (shared := _shared(one.type, known)) is not None:
            first, offset = _absorbed(one.type, shared, moved)
            one.type = first
            one.places = [None if place is None else place + offset for place in one.places]
    if isinstance(kind, ListType):
        _replace(kind.element, known, seen)
        if (shared := _shared(kind.element, known)) is not None:
            kind.element, offset = _absorbed(kind.element, shared, moved)
            kind.spans = [[None if place is None else place + offset for place in span] for span in kind.spans]


def _shared(kind: RustType, known: dict[str, StructType]) -> StructType | None:
    if not isinstance(kind, StructType) or not all(isinstance(one.type, LayerType) for one in kind.fields):
        return None
    first = known.get(_signature(kind))
    return None if first is None or first is kind else first


def _absorbed(kind: RustType, first: StructType, moved: dict[int, tuple[StructType, int]]) -> tuple[StructType, int]:
    """Return the struct and how far the instances of `kind` lie behind its own; they are added once."""
    if id(kind) in moved:
        return moved[id(kind)]
    offset = first.instances
    if isinstance(kind, StructType):
        for mine, other in zip(first.fields, kind.fields, strict=True):
            if isinstance(mine.type, LayerType) and isinstance(other.type, LayerType):
                base = len(mine.type.instances)
                mine.type.instances.extend(other.type.instances)
                mine.places.extend(None if place is None else place + base for place in other.places)
        first.instances += kind.instances
    moved[id(kind)] = (first, offset)
    return first, offset
