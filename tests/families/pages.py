"""The pages below `docs/families`: one per built-in recipe, made from the recipe's file and a recorded checkpoint.

    python -m tests.families.pages

writes them; `test_pages` compares them with what would be written. Not here: anything said by hand - traps and targets
are the recipe's own comments and `target`, so that they cannot part from it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from importer.checkpoint import open_checkpoint
from importer.dtypes import DType
from importer.plan import Plan, build_plan
from importer.recipes import Recipe, list_builtin, load_recipe
from tests.families.recorded import RECIPES
from tests.families.synthetic import KEYS, load, write

__all__ = ["FOLDER", "NEEDS", "needs", "pages"]

FOLDER = KEYS.parents[1] / "docs" / "families"

NEEDS = ("Eps", "Activation", "Rotary", "Fused", "Ties", "Scaling", "Experts", "Local layers", "Padding")
"""What a Rust author must know besides the weights; every page says something about each."""

_LETTERS = "ijkl"
_FIRST = {recipe: family for family, recipe in reversed(RECIPES.items())}
_NAMESAKES = {recipe: name for recipe in _FIRST if (name := recipe.replace("-", "_")) in RECIPES}
_EXAMPLES = {**_FIRST, **_NAMESAKES, "llama-hf": "qwen3"}
_NOTE = "<!-- made by `python -m tests.families.pages` from the recipe and a recorded checkpoint -->"


def pages() -> dict[str, str]:
    """Return file name → text of every page."""
    recipes = [load_recipe(builtin.path) for builtin in list_builtin()]
    made = {f"{recipe.name}.md": _page(recipe) for recipe in recipes}
    return {"README.md": _index(recipes), **made}


def _index(recipes: Iterable[Recipe]) -> str:
    rows = "\n".join(f"| [{recipe.name}]({recipe.name}.md) | {recipe.about} |" for recipe in recipes)
    return f"""{_NOTE}

# Built-in recipes

`importer convert` finds the recipe from `config.json`, or from the names of the tensors; `--recipe NAME` names one. Each
page lists what differs from a plain copy, the names on both sides, and the Burn module the names are for.

| recipe | for |
|---|---|
{rows}
"""


def _page(recipe: Recipe) -> str:
    text = Path(recipe.path).read_text(encoding="utf-8")
    parts = [_NOTE, f"# {recipe.name}", f"{recipe.about}."]
    if recipe.parents:
        parts.append(f"Extends [{recipe.parents[0]}]({recipe.parents[0]}.md), whose rules run after the ones here.")
    remarks, traps = _comments(text)
    parts += remarks
    if traps:
        parts += ["## Traps", "\n".join(f"- {trap}" for trap in traps)]
    parts += ["## Besides the weights", "\n".join(f"- **{need}**: {text}" for need, text in needs(recipe).items())]
    parts += ["## Recognised by", "\n".join(_recognised(recipe)) or "`--recipe` only."]
    refused = [*_refused(recipe)]
    if refused:
        parts += ["## Refused, with the reason", "\n".join(refused)]
    plan = _example_plan(recipe.name)
    if recipe.settings:
        parts += ["## Set these in your module", *_settings(recipe, plan)]
    parts += ["## Names", _names(plan)]
    skipped = _skipped(plan)
    if skipped:
        parts += ["Left out, with the rule that says so:", "\n".join(skipped)]
    parts += ["## Element types", _element_types(recipe)]
    target = re.search(r"^target:.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if target is not None:
        parts += ["## The Burn module", f"```yaml\n{target[0].rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _comments(text: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs and the traps of the comment a recipe opens with."""
    opening = text[: text.index("recipe: 1")]
    lines = [line.removeprefix("#").strip() for line in opening.splitlines()]
    remarks: list[str] = []
    traps: list[str] = []
    current: list[str] | None = None
    for line in lines:
        trap = re.match(r"Trap(?: \d)?: (.*)", line)
        if trap is not None:
            traps.append(_as_sentence(trap[1]))
            current = traps
        elif current is None:
            remarks.append(line)
            current = remarks
        else:
            current[-1] += f" {line}"
    return remarks, traps


def needs(recipe: Recipe) -> dict[str, str]:
    """Return what the comment a recipe closes with says about each need; its parent's words where it is silent."""
    said = needs(load_recipe(recipe.parents[0])) if recipe.parents else {}
    text = Path(recipe.path).read_text(encoding="utf-8")
    closing = (
        text.rpartition("# Besides the weights, the module needs:\n")[2] if "# Besides the weights" in text else ""
    )
    for line in closing.replace("\n#   ", " ").splitlines():
        label, _, words = line.removeprefix("# ").partition(": ")
        if label == "None of":
            said |= {need: "None." for need in NEEDS if need.lower() in words.rstrip(".").split(", ")}
        else:
            said[label] = _as_sentence(words)
    return {need: said[need] for need in (*NEEDS, *(said.keys() - set(NEEDS))) if need in said}


def _as_sentence(text: str) -> str:
    """Return the text with a capital, unless it opens with a file's, field's or tensor's name."""
    first = text.split(maxsplit=1)[0]
    return text if re.search(r"[._/\d]", first.rstrip(".,:;")) else text[0].upper() + text[1:]


def _recognised(recipe: Recipe) -> Iterator[str]:
    """Yield a line for every condition of `accepts`."""
    identifiers = [accept.identifier for accept in recipe.accepts if accept.identifier]
    if identifiers:
        yield f"- in config.json: {', '.join(f'`{one}`' for one in identifiers)}"
    for accept in recipe.accepts:
        if accept.has:
            yield f"- fields of the config: {', '.join(f'`{one}`' for one in accept.has)}"
        if accept.classes:
            yield f"- classes that match {_quoted(pattern.text for pattern in accept.classes)}"
        if accept.names and not accept.classes:
            without = _quoted(pattern.text for pattern in accept.without)
            types = f", with the model_type {_quoted(accept.model_types)} if there is one" if accept.model_types else ""
            yield (
                f"- where the config names no class{types}: names that match "
                f"{_quoted(pattern.text for pattern in accept.names)}"
                + (f" and none that match {without}" if without else "")
            )


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _refused(recipe: Recipe) -> Iterator[str]:
    """Yield a line for every condition, and for every class that looks alike."""
    for accept in recipe.accepts:
        for condition in accept.conditions:
            yield f"- {'unless' if condition.wanted else 'where'} `{condition.expression.text}`: {condition.reason}"
        for other in accept.unlike:
            yield f"- the classes `{other.pattern.text}`: {other.reason}"


def _settings(recipe: Recipe, plan: Plan) -> Iterator[str]:
    """Yield the settings as a table, with the values of the recorded example."""
    values = {one.name: one.value for one in plan.settings}
    yield "The report prints them with the values of your config.json; here with those of the example below."
    rows = (
        f"| {name} | `{setting.expression.text.replace('|', chr(92) + '|')}` | {_shown(values.get(name))} |"
        for name, setting in recipe.settings.items()
    )
    yield "\n".join(["| setting | from the config | example |", "|---|---|---|", *rows])


def _shown(value: object) -> str:
    return "" if value is None else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _example_plan(recipe: str) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        write(load(_EXAMPLES[recipe]).untied, Path(folder))
        return build_plan(open_checkpoint(folder), load_recipe(recipe))


def _names(plan: Plan) -> str:
    """Return the table of names: a row for each module of the target, numbers folded."""
    modules: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for step in plan.tensors:
        path, _, leaf = _folded(step.name).rpartition(".")
        sources, leaves = modules.setdefault((path, step.layer or ""), ({}, {}))
        alone = len(step.sources) == 1
        sources |= dict.fromkeys(_folded_source(source, step.name, alone=alone) for source in step.sources)
        leaves[leaf] = None
    rows = (
        f"| {_joined(sources)} | {_joined(f'{path}.{leaf}' if path else leaf for leaf in leaves)} | {layer} |"
        for (path, layer), (sources, leaves) in modules.items()
    )
    return "\n".join(["| source | Burn | layer |", "|---|---|---|", *rows])


def _joined(names: Iterable[str]) -> str:
    """Return names in one cell, those of one module together: `norm.(weight, bias)`."""
    modules: dict[str, list[str]] = {}
    for name in names:
        path, _, leaf = name.rpartition(".")
        modules.setdefault(path, []).append(leaf)
    cells = []
    for path, leaves in modules.items():
        together = leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"
        cells.append(f"`{path}.{together}`" if path else f"`{together}`")
    return ", ".join(cells)


def _element_types(recipe: Recipe) -> str:
    """Say which types the recipe writes where `--dtype` says nothing."""

    def of(dtype: DType | None) -> str:
        return "as the file has them" if dtype is None else f"as {dtype.name}"

    plan = recipe.dtype
    parts = [f"Floats are written {of(plan.default)}"]
    parts += [f"those that match `{rule.pattern.text}` {of(rule.dtype)}" for rule in plan.rules]
    if plan.ints is not None:
        parts.append(f"integers {of(plan.ints)}")
    return ", ".join(parts) + "."


def _skipped(plan: Plan) -> list[str]:
    found = dict.fromkeys((_folded(skipped.name), skipped.rule) for skipped in plan.skipped)
    return [f"- `{name}`: {rule}" for name, rule in found]


def _folded(name: str) -> str:
    """Return a name with its numbers replaced by letters, the outermost by i."""
    letters = iter(_LETTERS)
    return ".".join(f"{{{next(letters)}}}" if part.isdecimal() else part for part in name.split("."))


def _folded_source(name: str, target: str, *, alone: bool) -> str:
    """Return a source's name with the numbers it shares with its target as letters.

    Others keep their meaning: positions in a Sequential. Of several sources they only count.
    """
    numbers = [part for part in target.split(".") if part.isdecimal()]
    folded, rest = [], iter(zip(numbers, _LETTERS, strict=False))
    upcoming = next(rest, None)
    for part in name.split("."):
        if upcoming is not None and part == upcoming[0]:
            folded.append(f"{{{upcoming[1]}}}")
            upcoming = next(rest, None)
        else:
            folded.append("{n}" if part.isdecimal() and not alone else part)
    return ".".join(folded)


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages()
    for stale in {path.name for path in FOLDER.glob("*.md")} - made.keys():
        (FOLDER / stale).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(made)} pages\n")


if __name__ == "__main__":
    main()
