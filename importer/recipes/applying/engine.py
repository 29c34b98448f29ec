"""Applying a recipe: names in, names out, with the trail of rules on every tensor. No byte is read for it.

    strip ─► drop, keep ─► rename ─► renumber ─► alias ─► stored_as ─► tensors ─► variants

What `unwrap` names is entered by the caller, who asks `unwrap_root`. Not here: single operations (`importer.recipes.applying.steps`,
`renumbering`), the template's numbers (`settling`), and everything from types on, which is the plan's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from importer.arrays import transpose
from importer.errors import LimitError, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.recipes.applying.collisions import without_collisions
from importer.recipes.applying.renumbering import renumber
from importer.recipes.applying.scopes import ConfigScope, evaluate_at
from importer.recipes.applying.settings import settled_settings
from importer.recipes.applying.settling import settle_template, settle_types
from importer.recipes.applying.steps import StepRunner
from importer.recipes.applying.variants import with_variants
from importer.recipes.applying.working import ChangeLog, WorkingTensor
from importer.recipes.applying.wrappers import INNER_WRAPPERS, OUTER_WRAPPERS, shared_prefix, without_inner
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Value
from importer.recipes.language.patterns import Pattern
from importer.recipes.language.replacements import Replacement
from importer.recipes.outcome import NamedArray, Remapped, Template
from importer.recipes.recipe import NamePattern, Prefix, Recipe, Rename, RuleRef, Variants

if TYPE_CHECKING:
    import regex

__all__ = ["apply_recipe", "named_values", "unwrap_root"]

_MATRIX = 2


def unwrap_root(recipe: Recipe, names: Iterable[str]) -> str | None:
    """Return the first key of `unwrap` below which there are tensors, or None if the recipe names none of them."""
    listed = list(names)
    for key in recipe.unwrap:
        if any(name.startswith(f"{key.text}.") for name in listed):
            return key.text
    return None


def apply_recipe(
    recipe: Recipe,
    tensors: Mapping[str, NamedArray],
    config: Mapping[str, object] | None,
    *,
    variants: Variants | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Remapped:
    """Apply a recipe to a source's tensors.

    Args:
        recipe: what to do.
        tensors: by name below the root; the names are what the recipe's source patterns see, and what `Entry.sources` say.
        config: contents of config.json, or None.
        variants: whether enum variants are part of names, if the output format decides that; else the recipe's own word.
        limits: bounds on names and on the time of one pattern.

    Raises:
        RecipeError: the recipe does not fit the config: an unknown field, a size that is no whole number; all at once.
        LimitError: a pattern takes too long on a name, or a name becomes too long.
    """
    recipe = recipe if variants is None else replace(recipe, variants=variants)
    record = ChangeLog()
    items = _stripped(recipe, tensors, record)
    named = {item.name: tensors[item.sources[0]] for item in items}
    scope = ConfigScope(recipe.config, config, named, limits.regex_timeout_seconds)
    template, types = settle_template(recipe, scope, limits), settle_types(recipe, scope)
    items = _Names(recipe, template, scope, record, limits).apply(items)
    runner = StepRunner(scope, record, limits.regex_timeout_seconds)
    for step in recipe.tensors:
        items = runner.run(step, items)
    for item in items:
        item.name = with_variants(item.name, recipe.variants)
    items = without_collisions(items, record)
    return Remapped(
        entries=tuple(item.entry() for item in items),
        skipped=tuple(record.skipped),
        faults=tuple(record.faults),
        unmatched_rules=() if recipe.is_builtin else record.idle(_own_rules(recipe)),
        warnings=tuple(record.warnings.values()),
        template=template,
        types=types,
        dtype=recipe.dtype,
        settings=settled_settings(recipe, scope),
    )


def named_values(
    recipe: Recipe,
    tensors: Mapping[str, NamedArray],
    config: Mapping[str, object] | None,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Value]:
    """Return the recipe's short names with their values for this checkpoint; those that have none are left out."""
    items = _stripped(recipe, tensors, ChangeLog())
    named = {item.name: tensors[item.sources[0]] for item in items}
    scope = ConfigScope(recipe.config, config, named, limits.regex_timeout_seconds)
    values: dict[str, Value] = {}
    for name in recipe.config:
        with suppress(TextError):
            values[name] = scope.lookup(name)
    return values


def _stripped(recipe: Recipe, tensors: Mapping[str, NamedArray], record: ChangeLog) -> list[WorkingTensor]:
    """Cut off the prefixes that every name has, as often as there is one, and what wrappers put inside of names."""
    items = [WorkingTensor(name, tensor.array, (name,), identity=tensor.identity) for name, tensor in tensors.items()]
    if recipe.strip is None:
        _without_wrappers(items)
    prefixes = _prefixes(recipe)
    by_text = {one.text: one for one in prefixes}
    while (cut := shared_prefix(list(by_text), (item.name for item in items))) is not None:
        record.used.update(one.rule for one in prefixes)  # they are alternatives: one that fits is enough
        for item in items:
            item.touch(by_text[cut].rule, item.name[len(cut) :])
    return items


def _without_wrappers(items: Iterable[WorkingTensor]) -> None:
    for item in items:
        name = without_inner(item.name)
        if name and name != item.name:
            found = next(text for text in INNER_WRAPPERS if text in item.name)
            item.touch(RuleRef("", 0, 0, "strip", found), name)


def _prefixes(recipe: Recipe) -> Sequence[Prefix]:
    if recipe.strip is not None:
        return recipe.strip
    return [Prefix(text, RuleRef("", 0, 0, "strip", text)) for text in OUTER_WRAPPERS]


def _own_rules(recipe: Recipe) -> list[RuleRef]:
    """Return the rules that stand in the recipe's own file and should match something."""
    rules = [
        *(prefix.rule for prefix in recipe.strip or ()),
        *(rule.rule for rules in (recipe.keep, recipe.drop, recipe.renumber) for rule in rules),
        *(rename.rule for rename in recipe.rename),
        *(alias.rule for alias in recipe.alias),
        *(stored.rule for stored in recipe.stored_as),
        *(step.rule for step in recipe.tensors),
    ]
    return [rule for rule in rules if rule.file == recipe.file]


class _Names:
    """The part of the pipeline before `tensors`."""

    def __init__(
        self, recipe: Recipe, template: Template | None, scope: ConfigScope, record: ChangeLog, limits: Limits
    ) -> None:
        self._recipe = recipe
        self._template = template
        self._scope = scope
        self._record = record
        self._timeout = limits.regex_timeout_seconds
        self._longest = limits.max_name_length

    def apply(self, items: list[WorkingTensor]) -> list[WorkingTensor]:
        """Return the tensors under their target names, every matrix in PyTorch's orientation."""
        items = self._kept(items)
        for rename in self._recipe.rename:
            self._rename(rename, items)
        self._check_names(items)
        self._renumber(items)
        items = without_collisions(items, self._record)
        items = self._aliased(items)
        self._unify_layout(items)
        return items

    def _kept(self, items: list[WorkingTensor]) -> list[WorkingTensor]:
        kept: list[WorkingTensor] = []
        for item in items:
            drop = self._first(self._recipe.drop, item.name)
            if drop is not None:
                self._record.skip(item, drop, "dropped")
            elif self._recipe.keep and self._first(self._recipe.keep, item.name) is None:
                self._record.skip(item, self._recipe.keep[0].rule, "not kept")
            else:
                kept.append(item)
        return kept

    def _first(self, rules: Sequence[NamePattern], name: str) -> RuleRef | None:
        for rule in rules:
            if rule.pattern.search(name, self._timeout) is not None:
                self._record.used.add(rule.rule)
                return rule.rule
        return None

    def _rename(self, rename: Rename, items: Sequence[WorkingTensor]) -> None:
        """Replace every match of one rule in every name."""
        pattern, literal = rename.pattern, rename.pattern.literal
        found = False
        # Most rules concern few names: one look for the literal spares 100,000 names nearly all of 20 rules.
        for item in [item for item in items if literal in item.name]:
            matches = pattern.find_all(item.name, self._timeout)
            if not matches:
                continue
            found = True
            if len(matches) > 1 or pattern.dotted:
                self._look_for_slips(rename, item.name, len(matches))
            try:
                name = self._bounded(_replaced(item.name, matches, rename.replacement))
            except TextError as error:
                self._record.fault(item.name, error.what, error.how, rename.rule)
                continue
            if name != item.name:
                item.touch(rename.rule, name)
        if found:
            self._record.used.add(rename.rule)

    def _bounded(self, name: str) -> str:
        if len(name) > self._longest:
            raise LimitError(
                f"a rename makes the name {shown(name)} too long",
                limit="max_name_length",
                allowed=self._longest,
                actual=len(name),
                how="Check the replacement for captures that repeat.",
            )
        return name

    def _look_for_slips(self, rename: Rename, name: str, count: int) -> None:
        if count > 1:
            self._record.warn(
                rename.rule, "often", f"matches {count} times in {shown(name)}; anchor it if that is not meant"
            )
        stray = rename.pattern.strayed_dot(name, self._timeout)
        if stray is not None:
            text = f"an unescaped . matched {shown(stray)} in {shown(name)}; write \\. for a dot"
            self._record.warn(rename.rule, "dot", text)

    def _check_names(self, items: Sequence[WorkingTensor]) -> None:
        for item in items:
            if not item.name or item.name.startswith(".") or item.name.endswith(".") or ".." in item.name:
                rule = item.trail[-1].rule if item.trail else None
                what = f"{', '.join(map(shown, item.sources))} becomes {shown(item.name)}, which has an empty segment"
                self._record.fault(item.name, what, "Check the dots in the replacement.", rule)

    def _renumber(self, items: Sequence[WorkingTensor]) -> None:
        if not self._recipe.renumber:
            return
        verdicts: dict[str, RuleRef | None] = {}

        def rule_for(prefix: str) -> RuleRef | None:
            if prefix not in verdicts:
                patterns = self._recipe.renumber
                verdicts[prefix] = next((p.rule for p in patterns if self._is_whole(p.pattern, prefix)), None)
            return verdicts[prefix]

        changed = renumber((item.name for item in items), lambda prefix: rule_for(prefix) is not None)
        self._record.used |= {rule for rule in verdicts.values() if rule is not None}
        for item in items:
            new, prefix = changed.get(item.name, (item.name, ""))
            rule = rule_for(prefix)
            if new != item.name and rule is not None:
                item.touch(rule, new)

    def _is_whole(self, pattern: Pattern, prefix: str) -> bool:
        return pattern.fullmatch(prefix, self._timeout)

    def _aliased(self, items: list[WorkingTensor]) -> list[WorkingTensor]:
        """Add the names that are taken from others where the source lacks them and the target has a place for them."""
        by_name = {item.name: item for item in items}
        for alias in self._recipe.alias:
            other = by_name.get(alias.other)
            if alias.name in by_name or other is not None:
                self._record.used.add(alias.rule)
            if alias.name in by_name or other is None or not self._has_place(alias.name):
                continue
            if alias.when is None or evaluate_at(alias.when, self._scope, alias.rule):
                by_name[alias.name] = other.part(alias.rule, alias.name, other.array)
        return list(by_name.values())

    def _has_place(self, name: str) -> bool:
        """Whether a layer of the target is at this name or above it, or a step takes it; without a target, always."""
        if self._template is None or any(
            pattern.search(name, self._timeout) for step in self._recipe.tensors for pattern in step.match
        ):
            return True
        segments = with_variants(name, self._recipe.variants).split(".")
        return any(".".join(segments[:end]) in self._template.layers for end in range(1, len(segments) + 1))

    def _unify_layout(self, items: Sequence[WorkingTensor]) -> None:
        """Turn matrices that are stored `[in, out]`, so that every later rule sees `[out, in]`."""
        for stored in self._recipe.stored_as:
            for item in items:
                path, _, leaf = item.name.rpartition(".")
                if leaf != "weight" or len(item.array.shape) != _MATRIX:
                    continue
                if stored.pattern.search(path, self._timeout) is not None:
                    self._record.used.add(stored.rule)
                    item.touch(stored.rule, array=transpose(item.array))


def _replaced(name: str, matches: Sequence[regex.Match[str]], replacement: Replacement) -> str:
    """Return the name with every match replaced."""
    pieces: list[str] = []
    end = 0
    for match in matches:
        pieces += (name[end : match.start()], replacement.expand(match))
        end = match.end()
    return "".join((*pieces, name[end:]))
