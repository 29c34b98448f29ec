"""What a recipe is once it is read: frozen values, each knowing the line it comes from.

Not here: what applying a recipe gives (`importer.recipes.outcome`), reading YAML (`reading`), and the engine (`engine`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from importer.dtypes import DType
from importer.errors import Location
from importer.recipes.language.expressions import Expression, Value
from importer.recipes.language.patterns import Pattern
from importer.recipes.language.replacements import Replacement
from importer.recipes.operations import Operation

if TYPE_CHECKING:
    from importer.adapters.layer_kind import Args

__all__ = [
    "Accept",
    "Alias",
    "Condition",
    "ConfigName",
    "DTypePlan",
    "DTypeRule",
    "LayerCall",
    "NamePattern",
    "Prefix",
    "Recipe",
    "Rename",
    "RuleRef",
    "Setting",
    "Step",
    "StoredAs",
    "TemplateNode",
    "TypeRule",
    "Unlike",
    "Variants",
]

Variants: TypeAlias = Literal["keep", "skip"]
"""Whether enum variants (`<Basic>`) are segments of the names that are written. Burnpack needs them (`keep`)."""


@dataclass(frozen=True, slots=True)
class RuleRef:
    r"""One line of a recipe, printed like `llama.yaml:12 rename '^model\.'`.

    Attributes:
        file: name of the recipe file without its folder; "" for a rule that is built into the tool.
        line: counted from 1; 0 for a rule that is built into the tool.
        column: counted from 1.
        section: the section it stands in (`rename`, `drop`, `tensors`…).
        text: the pattern or name that tells it from its neighbours.
    """

    file: str
    line: int
    column: int
    section: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file or "default"
        return f"{place} {self.section} '{self.text}'"

    @property
    def location(self) -> Location | None:
        """The place for an error message; None for a rule that is built into the tool."""
        return Location(path=self.file, line=self.line, column=self.column) if self.line else None


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression over the config that must have the truth value `wanted`, and the reason why."""

    expression: Expression
    wanted: bool
    reason: str
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Unlike:
    """Classes that share the recipe's tensor names and differ in what they compute; the reason says in what."""

    pattern: Pattern
    reason: str
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Accept:
    """One way to tell that a checkpoint is for this recipe; every condition given must hold.

    Attributes:
        identifier: value of `architectures`, `model_type`, `arch` or `_class_name` in config.json; "" for none.
        config: config fields with the values allowed for each.
        has: config fields that must be present, whatever their value.
        classes: patterns of which one must match the whole of a class that config.json names.
        names: patterns of which each must match a tensor name.
        without: patterns that must match no tensor name.
        model_types: what `model_type` may be, where config.json names one and no class.
        conditions: what must hold besides, each with the reason; of the whole recipe where the entry claims nothing.
        unlike: classes with the same names that compute something else.
        rule: where it stands.
    """

    rule: RuleRef
    identifier: str = ""
    config: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    has: tuple[str, ...] = ()
    classes: tuple[Pattern, ...] = ()
    names: tuple[Pattern, ...] = ()
    without: tuple[Pattern, ...] = ()
    model_types: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    unlike: tuple[Unlike, ...] = ()

    @property
    def is_claim(self) -> bool:
        """Whether it says what to accept, not only what to refuse."""
        return bool(self.identifier or self.config or self.has or self.classes or self.names)


@dataclass(frozen=True, slots=True)
class ConfigName:
    """A short name bound to an expression over config.json."""

    name: str
    expression: Expression
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Setting:
    """What the Rust module must be told besides the weights: a name in words, and its value as an expression."""

    name: str
    expression: Expression
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Prefix:
    """A key to enter (`unwrap`) or a prefix to cut off (`strip`)."""

    text: str
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern of `keep`, `drop` or `renumber`."""

    pattern: Pattern
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Rename:
    """A pattern whose every match in a name is replaced."""

    pattern: Pattern
    replacement: Replacement
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Alias:
    """`name` is taken from `other` where the source has no `name` and `when`, if given, is true."""

    name: str
    other: str
    rule: RuleRef
    when: Expression | None = None


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Modules whose matrices the source stores in an unusual layout; `kind` is `Conv1D` (`[in, out]`)."""

    kind: str
    pattern: Pattern
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of `tensors`.

    Attributes:
        operation: what is done.
        match: one pattern, or as many as the operation takes tensors.
        into: names of the results; None drops one part. Empty: the name stays.
        when: condition over the config.
        rule: where it stands.
    """

    operation: Operation
    match: tuple[Pattern, ...]
    into: tuple[Replacement | None, ...]
    when: Expression | None
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class LayerCall:
    """`Linear(d, 4 * d, bias=False)` as written; the arguments are still expressions."""

    kind: str
    arguments: tuple[Expression, ...]
    keywords: Mapping[str, Expression]
    rule: RuleRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateNode:
    """One key of `target` as written: a path with `{…}` parts, and a layer or further nodes below it.

    Attributes:
        key: path text as written, segments joined by dots; "" for the whole template.
        parts: the same, taken apart: texts and `{…}` expressions.
        rule: where it stands.
        loops: `for`: names with the sequence each runs over, outermost first.
        bindings: `let`: names bound in every turn.
        when: condition in every turn.
        layer: the layer at this path, if it is one.
        children: what stands below it, in file order; a key may occur more than once, each with its own `when`.
        removes: takes away what a parent recipe has at this key (`null`); `x.*` takes away everything below `x`.
    """

    key: str
    rule: RuleRef
    parts: tuple[str | Expression, ...] = ()
    loops: tuple[ConfigName, ...] = ()
    bindings: tuple[ConfigName, ...] = ()
    when: Expression | None = None
    layer: LayerCall | None = None
    children: tuple[TemplateNode, ...] = ()
    removes: bool = False


@dataclass(frozen=True, slots=True)
class TypeRule:
    """Without a template: the layer kind of every module whose path the pattern matches; the first match counts.

    `args` are the layer's arguments by name, as far as given; they are settled when the recipe is applied.
    """

    pattern: Pattern
    layer: LayerCall
    rule: RuleRef
    args: Args = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DTypeRule:
    """The element type of floats whose target name the pattern matches; None keeps the source's."""

    pattern: Pattern
    dtype: DType | None
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class DTypePlan:
    """Element types of the output.

    Attributes:
        default: type of every float that no rule names; None keeps the source's.
        rules: first match counts; patterns see target names.
        ints: type of every integer; None keeps the source's.
        rule: where it stands, None if the recipe does not say.
    """

    default: DType | None = None
    rules: tuple[DTypeRule, ...] = ()
    ints: DType | None = None
    rule: RuleRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe with everything it extends already merged in.

    Attributes:
        name: what `--recipe` takes.
        about: one line for lists.
        path: file it was read from, as given; a made-up name for text.
        file: file name that its own rules carry; rules of parents carry another.
        is_builtin: whether it ships with the tool.
        parents: names of the recipes it extends, nearest first.
        accepts: ways to recognise its checkpoints; never inherited.
        config: short names over config.json.
        settings: what the module must be told besides the weights.
        unwrap: keys to enter, first that exists.
        strip: prefixes cut off when every name has them; None means the usual wrappers' prefixes.
        keep: source names to use; empty means all.
        drop: source names to leave out.
        rename: in order, each on the result of the one before.
        renumber: prefixes whose numbers are made contiguous.
        alias: names taken from another where missing.
        stored_as: unusual layouts of the source.
        tensors: steps on renamed tensors, in order.
        target: root of the template (its key is ""), or None.
        types: layer kinds where there is no template.
        dtype: element types.
        variants: whether enum variants are part of the names.
    """

    name: str
    path: str
    file: str
    about: str = ""
    is_builtin: bool = False
    parents: tuple[str, ...] = ()
    accepts: tuple[Accept, ...] = ()
    config: Mapping[str, ConfigName] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    unwrap: tuple[Prefix, ...] = ()
    strip: tuple[Prefix, ...] | None = None
    keep: tuple[NamePattern, ...] = ()
    drop: tuple[NamePattern, ...] = ()
    rename: tuple[Rename, ...] = ()
    renumber: tuple[NamePattern, ...] = ()
    alias: tuple[Alias, ...] = ()
    stored_as: tuple[StoredAs, ...] = ()
    tensors: tuple[Step, ...] = ()
    target: TemplateNode | None = None
    types: tuple[TypeRule, ...] = ()
    dtype: DTypePlan = field(default_factory=DTypePlan)
    variants: Variants = "keep"
