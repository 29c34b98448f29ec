"""The Rust file: structs, config, constructors and helpers, formatted as rustfmt formats them.

No forward pass is written: what a model computes is not in its weights. Not here: what stands in a constructor
(`lifting`), and the layers of burn-nn (`burn_layers`).

rustfmt's widths that show here (its defaults): 100 columns, 60 for the arguments of a call, for a chain and for an array,
18 for a struct literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from importer.rust.burn_layers import rust_layer
from importer.rust.lifting import (
    BuildAny,
    BuildCall,
    BuildEnum,
    BuildList,
    BuildTuple,
    Cell,
    Constructor,
    LocalList,
    Maybe,
    RustExpression,
    literal,
)
from importer.rust.lifting import constructors as lifted
from importer.rust.naming import name_types
from importer.rust.rust_types import (
    ConfigField,
    EnumType,
    LayerType,
    ListType,
    RustTarget,
    RustType,
    StructField,
    StructType,
    TupleType,
    below,
)
from importer.rust.unifying import root_type, tree_of

__all__ = ["rust_text"]

_COLUMNS = 100
_CALL = 60
_CHAIN = 60
_ARRAY = 60
_SHORT_ITEM = 10
_INDENT = "    "
_MANY_ARGUMENTS = 7
"""Above this clippy asks whether a function should take a struct."""


def rust_text(target: RustTarget) -> str:
    """Return the Rust file of a target.

    Raises:
        UnsupportedError: names that cannot be Rust fields, or a list of modules that no Rust type holds.
    """
    root = root_type(tree_of(target.layers))
    name_types(root, target.name)
    made = lifted(root, lambda path: _length(target, path))
    return _File(target, root, made).text()


def _length(target: RustTarget, path: tuple[str, ...]) -> str | None:
    for pattern, text in target.lengths.items():
        if len(pattern) == len(path) and all(a in ("*", b) for a, b in zip(pattern, path, strict=True)):
            return text
    return None


class _File:
    """Writes one file."""

    def __init__(self, target: RustTarget, root: StructType, made: dict[int, Constructor]) -> None:
        self._target = target
        self._root = root
        self._made = made
        self._types = list(_every(root))
        self._layers = [kind for kind in self._types if isinstance(kind, LayerType)]
        self._uses_config = _configured(made)

    def text(self) -> str:
        """Return the file; numbers that no constructor reads are no fields of its config."""
        structs = [kind for kind in self._types if isinstance(kind, StructType) and not kind.is_transparent]
        bodies = [
            *(self._struct(kind) for kind in structs),
            *(self._enum(kind) for kind in self._types if isinstance(kind, EnumType)),
        ]
        read = set(re.findall(r"\bconfig\.(\w+)", "".join(bodies)))
        self._target = replace(self._target, settings=tuple(one for one in self._target.settings if one.name in read))
        about = "".join(f"//! {line}".rstrip() + "\n" for line in self._target.about)
        parts = [about, self._imports(), *self._config(), *bodies, self._loader(), *self._helpers()]
        return "\n".join(part for part in parts if part)

    def _imports(self) -> str:
        elements = {kind.element for kind in self._layers if kind.kind == "Param"}
        whole = bool(elements - {"float"})
        names = ["Initializer"] * ("float" in elements) + ["Module"] + ["Param"] * bool(elements) + ["ParamId"] * whole
        tensor = ["Bool"] * ("bool" in elements) + ["Device"] + ["Int"] * whole + ["Tensor"] * bool(elements)
        lines = [
            "use burn::config::Config;",
            f"use burn::module::{_braced(names)};",
            *(["use burn::nn;"] if any(kind.kind != "Param" for kind in self._layers) else []),
            "use burn::store::RecordError;",
            f"use burn::tensor::{_braced(tensor)};",
            "use std::path::Path;",
        ]
        return "\n".join(lines) + "\n"

    def _config(self) -> Iterator[str]:
        name = f"{self._root.name}Config"
        rows: list[str] = [
            f"/// Sizes and settings of [`{self._root.name}`].",
            "#[derive(Config, Debug)]",
        ]
        if self._target.settings:
            rows.append(f"pub struct {name} {{")
            for setting in self._target.settings:
                rows += [f"{_INDENT}{line}" for line in _setting_lines(setting)]
            rows.append("}")
        else:
            rows.append(f"pub struct {name} {{}}")
        yield "\n".join(rows) + "\n"
        call = _call(f"{self._root.name}::new", self._root_arguments(), 8)
        yield (
            f"impl {name} {{\n{_INDENT}/// Makes the module with fresh weights.\n"
            f"{_INDENT}pub fn init(&self, device: &Device) -> {self._root.name} {{\n{_INDENT * 2}{call}\n{_INDENT}}}\n}}\n"
        )

    def _root_arguments(self) -> list[str]:
        return [*(["self"] if id(self._root) in self._uses_config else []), "device"]

    def _struct(self, kind: StructType) -> str:
        path = _wildcards(kind.hint)
        rows = [f"/// `{path}`" if path else f"/// The whole module; `{kind.name}::load` reads its weights."]
        rows += ["#[derive(Module, Debug)]", f"pub struct {kind.name} {{"]
        for one in kind.fields:
            doubts = _doubts(one.type)
            rows += [f"{_INDENT}// {doubt}" for doubt in sorted(doubts)]
            rows += [f"{_INDENT}{line}" for line in self._field_lines(one)]
        rows += ["}", "", f"impl {kind.name} {{"]
        made = self._made[id(kind)]
        rows += [f"{_INDENT}{line}" for line in self._function("new", made, "Self", is_public=kind is self._root)]
        functions = [self._made[id(one)] for one in self._transparent(kind)]
        rows.append("}")
        for inner in functions:
            rows += ["", *self._free_function(inner)]
        return "\n".join(rows) + "\n"

    def _field_lines(self, one: StructField) -> list[str]:
        text = self._type(one.type, optional=one.is_optional)
        if not isinstance(one.type, TupleType) or one.is_optional or len(text) - 2 <= _CALL:
            return [f"pub {one.name}: {text},"]
        parts = [self._type(part.type, optional=part.is_optional) for part in one.type.fields]
        return [f"pub {one.name}: (", *(f"{_INDENT}{part}," for part in parts), "),"]

    def _transparent(self, kind: RustType) -> Iterator[StructType]:
        """Yield the elements without a type of their own that stand directly in a struct, those of elements after them."""
        for one in below(kind):
            if isinstance(one, StructType) and one.is_transparent:
                yield one
                yield from self._transparent(one)
            elif not isinstance(one, StructType):
                yield from self._transparent(one)

    def _function(self, name: str, made: Constructor, returned: str, *, is_public: bool) -> Iterator[str]:
        """Yield the constructor of a struct."""
        if len(self._parameters(made)) > _MANY_ARGUMENTS:
            yield "#[allow(clippy::too_many_arguments)]"
        yield from self._signature(name, made, returned, is_public=is_public, indent=4)
        yield from (f"{_INDENT}{line}" for one in made.locals for line in _local_lines(one, 8))
        yield f"{_INDENT}Self {{"
        for field_name, build in made.parts:
            prefix = f"{field_name}: "
            lines = self._build(build, 12, len(prefix) + 1)
            yield f"{_INDENT * 2}{prefix}{lines[0]}" + ("," if len(lines) == 1 else "")
            yield from (f"{_INDENT * 2}{line}" + ("," if last else "") for line, last in _marked(lines[1:]))
        yield f"{_INDENT}}}"
        yield "}"

    def _free_function(self, made: Constructor) -> Iterator[str]:
        kind = made.struct.fields[0].type
        if len(self._parameters(made)) > _MANY_ARGUMENTS:
            yield "#[allow(clippy::too_many_arguments)]"
        yield from self._signature(_function_name(made.struct), made, self._type(kind), is_public=False, indent=0)
        yield from (f"{_INDENT}{line}" for one in made.locals for line in _local_lines(one, 4))
        yield from (f"{_INDENT}{line}" for line in self._build(made.parts[0][1], 4, 0))
        yield "}"

    def _parameters(self, made: Constructor) -> list[str]:
        config = [f"config: &{self._root.name}Config"] if id(made.struct) in self._uses_config else []
        return [*config, *(f"{one.name}: {one.type}" for one in made.arguments), "device: &Device"]

    def _signature(self, name: str, made: Constructor, returned: str, *, is_public: bool, indent: int) -> list[str]:
        head = f"{'pub ' * is_public}fn {name}("
        parameters = self._parameters(made)
        line = f"{head}{', '.join(parameters)}) -> {returned} {{"
        if indent + len(line) <= _COLUMNS:
            return [line]
        return [head, *(f"{_INDENT}{one}," for one in parameters), f") -> {returned} {{"]

    def _build(self, build: BuildAny, indent: int, before: int) -> list[str]:
        """Return the lines of an expression, the first to stand behind `before` characters at `indent` columns."""
        if isinstance(build, Maybe):
            inner = self._build(build.build, indent + 4, 0)
            return _closure(str(build.condition), ".then", "|| ", inner, "", indent, before)
        if isinstance(build, BuildList):
            return self._list(build, indent, before)
        if isinstance(build, BuildTuple):
            return self._tuple(build, indent, before)
        if isinstance(build, BuildEnum):
            return self._variants(build, indent, before)
        return _call_lines(self._callee(build.type), self._arguments(build), indent, before)

    def _arguments(self, build: BuildCall) -> list[str]:
        words = [str(one) for one in build.arguments]
        if isinstance(build.type, StructType) and id(build.type) in self._uses_config:
            words.insert(0, "config")
        return [*words, "device"] if not _is_identity(build.type) else words

    def _callee(self, kind: RustType) -> str:
        if isinstance(kind, LayerType):
            return rust_layer(kind).helper
        if isinstance(kind, StructType):
            return _function_name(kind) if kind.is_transparent else f"{kind.name}::new"
        raise AssertionError(kind)

    def _list(self, build: BuildList, indent: int, before: int) -> list[str]:
        """`(0..n).map(|i| …).collect()`."""
        source = f"(0..{build.length})"
        uses = any(one.indexed for one in build.element.arguments) or build.present is not None
        head = f"|{'i' if uses else '_'}| "
        if build.present is not None:
            inner = self._build(Maybe(build.present, build.element), indent + 12, 0)
        else:
            inner = self._build(build.element, indent + 12, 0)
        return _closure(source, ".map", head, inner, ".collect()", indent, before)

    def _tuple(self, build: BuildTuple, indent: int, before: int) -> list[str]:
        parts = [self._build(_known_gap(part), indent + 4, 0) for part in build.parts]
        line = f"({', '.join(part[0] for part in parts)})"
        if all(len(part) == 1 for part in parts) and indent + before + len(line) <= _COLUMNS and len(line) <= _CALL + 2:
            return [line]
        rows = ["("]
        for part in parts:
            rows += [f"{_INDENT}{text}" + ("," if last else "") for text, last in _marked(part)]
        return [*rows, ")"]

    def _variants(self, build: BuildEnum, indent: int, before: int) -> list[str]:
        if len(build.variants) == 1:
            word, _, inner = build.variants[0]
            return self._variant(build.type, word, inner, indent, before)
        rows: list[str] = []
        for position, (word, condition, inner) in enumerate(build.variants):
            is_last = position == len(build.variants) - 1
            head = "} else {" if is_last else f"{'} else ' * bool(position)}if {condition} {{"
            rows += [head, *(f"{_INDENT}{line}" for line in self._variant(build.type, word, inner, indent + 4, 0))]
        return [*rows, "}"]

    def _variant(self, kind: EnumType, word: str, inner: BuildAny, indent: int, before: int) -> list[str]:
        """`Block::Basic(BasicBlock::new(…))`."""
        callee = f"{kind.name}::{word}"
        lines = self._build(inner, indent, before + len(callee) + 1)
        if (
            len(lines) == 1
            and len(lines[0]) <= _CALL
            and indent + before + len(callee) + 2 + len(lines[0]) + 1 <= _COLUMNS
        ):
            return [f"{callee}({lines[0]})"]
        lines = self._build(inner, indent, before + len(callee) + 1)
        if len(lines) > 1 and lines[-1] == ")":
            return [f"{callee}({lines[0]}", *lines[1:-1], "))"]
        lines = self._build(inner, indent + 4, 0)
        return [f"{callee}(", *(f"{_INDENT}{line}" + ("," if last else "") for line, last in _marked(lines)), ")"]

    def _type(self, kind: RustType, *, optional: bool = False) -> str:
        if isinstance(kind, LayerType):
            text = rust_layer(kind).path
            optional = optional and kind.kind != "Identity"
        elif isinstance(kind, StructType):
            text = self._type(kind.fields[0].type) if kind.is_transparent else kind.name
        elif isinstance(kind, ListType):
            text = f"Vec<{self._type(kind.element, optional=kind.has_gaps)}>"
        elif isinstance(kind, TupleType):
            text = f"({', '.join(self._type(one.type, optional=one.is_optional) for one in kind.fields)})"
        else:
            text = kind.name
        return f"Option<{text}>" if optional else text

    def _enum(self, kind: EnumType) -> str:
        rows = [f"/// `{_wildcards(kind.hint)}`; the variant's name is part of its parameters' names."]
        rows += ["#[derive(Module, Debug)]", "#[allow(clippy::large_enum_variant)]", f"pub enum {kind.name} {{"]
        rows += [f"{_INDENT}{one.name.strip('<>')}({self._type(one.type)})," for one in kind.fields]
        return "\n".join([*rows, "}"]) + "\n"

    def _loader(self) -> str:
        name = self._root.name
        required = any(not setting.default for setting in self._target.settings)
        config = f"config: &{name}Config, " * required
        first = "config" if required else f"{name}Config::new()"
        return (
            f"impl {name} {{\n"
            f"{_INDENT}/// Reads a `.bpk` that `importer convert` wrote; a missing, unused or misshapen parameter is an error.\n"
            + "\n".join(
                f"{_INDENT}{line}"
                for line in _wrapped_function(
                    f"pub fn load({config}path: impl AsRef<Path>, device: &Device) -> Result<Self, RecordError> {{", 4
                )
            )
            + f"\n{_INDENT * 2}{first}.init(device).try_load_file(path)\n{_INDENT}}}\n}}\n"
        )

    def _helpers(self) -> Iterator[str]:
        """Yield each helper once, in the order of their names."""
        used = {rust_layer(kind).helper: rust_layer(kind) for kind in self._layers}
        for _, layer in sorted(used.items()):
            note = f"// Set here what the weights do not tell: {layer.untold}.\n" if layer.untold else ""
            yield note + layer.text


def _doubts(kind: RustType) -> set[str]:
    """Return what the layers of a field leave open, those of a list's elements too."""
    while isinstance(kind, ListType):
        kind = kind.element
    return {layer.doubt for layer in kind.instances if layer.doubt} if isinstance(kind, LayerType) else set()


def _every(root: RustType) -> Iterator[RustType]:
    seen: set[int] = set()
    stack: list[RustType] = [root]
    while stack:
        kind = stack.pop()
        if id(kind) not in seen:
            seen.add(id(kind))
            yield kind
            stack += reversed(list(below(kind)))


def _configured(made: dict[int, Constructor]) -> set[int]:
    """Return the structs whose constructors, or those of their parts, read the config."""
    found: set[int] = set()
    for key, one in made.items():  # parts come before wholes
        builds = [build for _, part in one.parts for build in _builds(part)]
        texts = [str(word) for build in builds for word in _words(build)]
        if any("config." in text for text in texts) or any(
            id(build.type) in found for build in builds if isinstance(build, BuildCall)
        ):
            found.add(key)
    return found


def _builds(build: BuildAny) -> Iterator[BuildAny]:
    yield build
    if isinstance(build, Maybe):
        yield from _builds(build.build)
    elif isinstance(build, BuildList):
        yield from _builds(build.element)
    elif isinstance(build, BuildTuple):
        for part in build.parts:
            yield from _builds(part)
    elif isinstance(build, BuildEnum):
        for _, _, part in build.variants:
            yield from _builds(part)


def _words(build: BuildAny) -> Iterable[RustExpression]:
    if isinstance(build, BuildCall):
        return build.arguments
    if isinstance(build, BuildList):
        return (build.length,)
    return ()


def _is_identity(kind: RustType) -> bool:
    return isinstance(kind, LayerType) and kind.kind == "Identity"


def _known_gap(build: BuildAny) -> BuildAny:
    """A part that no instance has is torch's module without weights, not an option."""
    return (
        build.build
        if isinstance(build, Maybe) and isinstance(build.build, BuildCall) and _is_identity(build.build.type)
        else build
    )


def _function_name(kind: StructType) -> str:
    return "new_" + "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.name).strip("_")


def _setting_lines(setting: ConfigField) -> list[str]:
    lines = [f"/// {setting.about}"]
    if setting.default:
        quoted = f'"{setting.default}"' if setting.type.startswith("Vec") else setting.default
        lines.append(f"#[config(default = {quoted})]")
    return [*lines, f"pub {setting.name}: {setting.type},"]


def _wildcards(path: Sequence[str]) -> str:
    return ".".join("*" if segment.isdecimal() else segment.strip("<>") for segment in path)


def _braced(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _marked(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is the last."""
    for position, line in enumerate(lines):
        yield line, position == len(lines) - 1


def _call(callee: str, arguments: Sequence[str], indent: int) -> str:
    return "\n".join(_call_lines(callee, arguments, indent, 0))


def _call_lines(callee: str, arguments: Sequence[str], indent: int, before: int) -> list[str]:
    """Return a call on one line, or with an argument a line; one more column is kept for the comma behind."""
    inside = ", ".join(arguments)
    line = f"{callee}({inside})"
    if len(inside) <= _CALL and indent + before + len(line) <= _COLUMNS:
        return [line]
    if all(len(one) <= _SHORT_ITEM and one.removeprefix("&").isidentifier() | one.isdecimal() for one in arguments):
        return [f"{callee}(", *(f"{_INDENT}{row}" for row in _filled_rows(arguments, indent + len(_INDENT))), ")"]
    rows = [f"{_INDENT}{line}" for one in arguments for line in _argument_lines(one)]
    return [f"{callee}(", *rows, ")"]


def _argument_lines(argument: str) -> list[str]:
    """Return an argument on a line of its own; an array that is too wide for one has an element a line."""
    if not argument.startswith("[") or ";" in argument or len(argument) - 2 <= _ARRAY:
        return [f"{argument},"]
    return ["[", *(f"{_INDENT}{one}," for one in argument[1:-1].split(", ")), "],"]


def _closure(source: str, method: str, head: str, inner: list[str], end: str, indent: int, before: int) -> list[str]:
    """Return `source.method(|| inner)end` as rustfmt breaks it."""
    line = f"{source}{method}({head}{inner[0]}){end}"
    if len(inner) == 1 and len(line) <= _CHAIN and indent + before + len(line) <= _COLUMNS:
        return [line]
    if not end and len(inner) == 1 and indent + before + len(line) <= _COLUMNS:
        return [line]
    is_block = len(inner) > 1 or indent + len(_INDENT) + len(f"{method}({head}{inner[0]})") >= _COLUMNS
    if not end:
        if is_block:
            return [f"{source}{method}({head}{{", *(f"{_INDENT}{line}" for line in inner), "})"]
        return [f"{source}", f"{_INDENT}{method}({head}{inner[0]})"]
    if is_block:
        body = [f"{method}({head}{{", *(f"{_INDENT}{line}" for line in inner), "})"]
    else:
        body = [f"{method}({head}{inner[0]})"]
    return [source, *(f"{_INDENT}{line}" for line in body), f"{_INDENT}{end}"]


def _local_lines(local: LocalList, indent: int) -> list[str]:
    """Return `let name = […];`; slices need their type said."""
    type_said = f": [{local.element}; {len(local.value)}]" if local.element.startswith("&") else ""
    head = f"let {local.name}{type_said} = "
    lines = _array_lines(local.value, f"&[{local.element}]", "", indent, len(head) + 1)
    return [f"{head}{lines[0]}", *lines[1:-1], f"{lines[-1]};"] if len(lines) > 1 else [f"{head}{lines[0]};"]


def _array_lines(value: Cell, kind: str, mark: str, indent: int, before: int) -> list[str]:
    """Return an array as rustfmt breaks it: one line, short elements filled up to the margin, others one a line."""
    inner = kind[2:-1] if kind.startswith("&[") else ""
    text = literal(value, kind).removeprefix("&")
    if not isinstance(value, tuple) or (
        len(text) - 2 <= _ARRAY and indent + before + len(mark) + len(text) <= _COLUMNS
    ):
        return [f"{mark}{text}" if isinstance(value, tuple) else literal(value)]
    items = [literal(one, inner) for one in value]
    if all(len(item) <= _SHORT_ITEM and not isinstance(one, tuple) for one, item in zip(value, items, strict=True)):
        return [f"{mark}[", *(f"{_INDENT}{row}" for row in _filled_rows(items, indent + len(_INDENT))), "]"]
    nested = [_array_lines(one, inner, "&" * inner.startswith("&"), indent + len(_INDENT), 1) for one in value]
    return [
        f"{mark}[",
        *(f"{_INDENT}{line}" + ("," if last else "") for item in nested for line, last in _marked(item)),
        "]",
    ]


def _filled_rows(items: Sequence[str], indent: int) -> list[str]:
    rows, row = [], ""
    for item in items:
        word = f" {item}," if row else f"{item},"
        if indent + len(row) + len(word) >= _COLUMNS:
            rows.append(row)
            row, word = "", f"{item},"
        row += word
    return [*rows, row]


def _wrapped_function(line: str, indent: int) -> list[str]:
    if indent + len(line) <= _COLUMNS:
        return [line]
    head, rest = line.split("(", 1)
    inside, tail = rest.rsplit(") -> ", 1)
    return [f"{head}(", *(f"{_INDENT}{one}," for one in inside.split(", ")), f") -> {tail}"]
