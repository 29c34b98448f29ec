"""Joining a recipe with the one it extends: the child's rules run first, the child's entries win.

Not here: finding the parent's file (`importer.recipes.library`).
"""

from __future__ import annotations

from dataclasses import replace

from importer.errors import did_you_mean
from importer.recipes.faults import Faults
from importer.recipes.reading.document import OwnRecipe
from importer.recipes.recipe import Alias, Recipe, RuleRef, TemplateNode

__all__ = ["joined", "without_removals"]


def joined(own: OwnRecipe, parent: Recipe) -> Recipe:
    """Return the child with everything of the parent that it does not say itself.

    Faults (a removal that removes nothing) go to the child's own faults.
    """
    child = own.recipe
    return replace(
        child,
        parents=(parent.name, *parent.parents),
        config={**parent.config, **child.config},
        settings={**parent.settings, **child.settings},
        unwrap=child.unwrap if "unwrap" in own.given else parent.unwrap,
        strip=child.strip if "strip" in own.given else parent.strip,
        keep=child.keep if "keep" in own.given else parent.keep,
        drop=(*child.drop, *parent.drop),
        rename=(*child.rename, *parent.rename),
        renumber=child.renumber if "renumber" in own.given else parent.renumber,
        alias=_joined_alias(child.alias, parent.alias),
        stored_as=(*child.stored_as, *parent.stored_as),
        tensors=(*child.tensors, *parent.tensors),
        target=_joined_target(child.target, parent.target, own.faults),
        types=(*child.types, *parent.types),
        dtype=child.dtype if "dtype" in own.given else parent.dtype,
        variants=child.variants if "variants" in own.given else parent.variants,
    )


def without_removals(own: OwnRecipe) -> Recipe:
    """Return a recipe that extends nothing; a `null` in its target has nothing to remove and is a fault."""
    target = own.recipe.target
    return own.recipe if target is None else replace(own.recipe, target=_settled(target, own.faults))


def _joined_alias(child: tuple[Alias, ...], parent: tuple[Alias, ...]) -> tuple[Alias, ...]:
    names = {alias.name for alias in child}
    return (*child, *(alias for alias in parent if alias.name not in names))


def _joined_target(child: TemplateNode | None, parent: TemplateNode | None, faults: Faults) -> TemplateNode | None:
    if child is None:
        return parent
    if parent is None:
        return _settled(child, faults)
    return _merged(child, parent, faults)


def _merged(child: TemplateNode, parent: TemplateNode, faults: Faults) -> TemplateNode:
    """Return the parent's mapping with the child's entries put over it; the parent's order stays."""
    kept = list(parent.children)
    for node in child.children:
        if node.removes:
            remaining = [other for other in kept if not _is_removed(other.key, node.key)]
            if len(remaining) == len(kept):
                _nothing_to_remove(node.rule, [other.key for other in kept], faults)
            kept = remaining
    return replace(
        parent,
        rule=child.rule,
        loops=child.loops or parent.loops,
        bindings=(*parent.bindings, *child.bindings),
        when=child.when or parent.when,
        layer=child.layer or parent.layer,
        children=tuple(_overlaid([node for node in child.children if not node.removes], kept, faults)),
    )


def _overlaid(children: list[TemplateNode], parents: list[TemplateNode], faults: Faults) -> list[TemplateNode]:
    by_key: dict[str, list[TemplateNode]] = {}
    for node in children:
        by_key.setdefault(node.key, []).append(node)
    result: list[TemplateNode] = []
    counts = {key: sum(parent.key == key for parent in parents) for key in by_key}
    for parent in parents:
        own = by_key.get(parent.key)
        if own is None:
            result.append(parent)
        elif len(own) == 1 and counts[parent.key] == 1 and _both_mappings(own[0], parent):
            result.append(_merged(own[0], parent, faults))
            by_key.pop(parent.key)
        else:
            # A layer, or a list with conditions: the child's entries stand in place of the parent's, all of them.
            result += [_settled(node, faults) for node in own]
            by_key[parent.key] = []
    return [*result, *(_settled(node, faults) for nodes in by_key.values() for node in nodes)]


def _both_mappings(child: TemplateNode, parent: TemplateNode) -> bool:
    return child.layer is None and parent.layer is None


def _settled(node: TemplateNode, faults: Faults) -> TemplateNode:
    """Return a node that nothing lies beneath, with removals noted as faults."""
    for child in node.children:
        if child.removes:
            _nothing_to_remove(child.rule, [], faults)
    return replace(node, children=tuple(_settled(child, faults) for child in node.children if not child.removes))


def _is_removed(key: str, removal: str) -> bool:
    if not removal.endswith(".*"):
        return key == removal
    below = removal[:-2]
    return key == below or key.startswith(f"{below}.")


def _nothing_to_remove(rule: RuleRef, keys: list[str], faults: Faults) -> None:
    how = did_you_mean(rule.text, keys, "null removes what a parent recipe has; remove this line.")
    faults.add(f"{rule.text!r} removes nothing", how=how, line=rule.line, column=rule.column)
