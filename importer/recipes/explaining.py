"""What happened to one name: every rule on the way from source names to a target name, step by step.

Not here: the layout change by type and the output's bytes, which the plan adds.
"""

from __future__ import annotations

from importer.recipes.outcome import Remapped, TrailStep

__all__ = ["explain", "explained_trail"]


def explain(remapped: Remapped, name: str) -> tuple[str, ...]:
    """Return the story of a tensor, one line per rule; empty if the recipe never saw the name.

    Args:
        remapped: outcome of applying the recipe.
        name: a source name or a target name.
    """
    lines: list[str] = []
    for entry in remapped.entries:
        if name == entry.name or name in entry.sources:
            lines += explained_trail(entry.sources, entry.trail, entry.name)
    for skipped in remapped.skipped:
        if skipped.name == name:
            rule = f"  {skipped.rule}" if skipped.rule != skipped.reason else ""
            lines += [f"{name}", f"  -> left out: {skipped.reason}{rule}"]
    lines += [f"error: {fault}" for fault in remapped.faults if fault.name == name]
    return tuple(lines)


def explained_trail(sources: tuple[str, ...], trail: tuple[TrailStep, ...], name: str) -> list[str]:
    """Return the lines for one tensor: its sources, each rule with the name it leads to, and its target name."""
    lines = [" + ".join(sources)]
    width = max((len(step.after) for step in trail), default=0)
    for step in trail:
        after = step.after if step.after != step.before else "(same name)"
        lines.append(f"  -> {after:<{width}}  {step.rule}")
    if not trail or trail[-1].after != name:
        lines.append(f"  -> {name}")
    return lines
