"""`importer recipes`: list the built-in recipes, show one, check a file.

Not here: what a recipe is and what can be wrong with it (`importer.recipes`).
"""

from __future__ import annotations

import sys

from importer.cli.arguments import Arguments
from importer.errors import printable
from importer.recipes import check_recipe, find_builtin, list_builtin

__all__ = ["run"]

_USAGE = 2


def run(arguments: Arguments) -> int:
    """Run the chosen action; `check` ends with 2 if the file has faults."""
    actions = {"list": _list, "show": _show, "check": _check, None: _list}
    return actions[arguments.action](arguments)


def _list(arguments: Arguments) -> int:
    del arguments
    recipes = list_builtin()
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        print(f"{recipe.name:<{width}}  {printable(recipe.about)}")
    return 0


def _show(arguments: Arguments) -> int:
    sys.stdout.write(find_builtin(arguments.name).read_text(encoding="utf-8"))
    return 0


def _check(arguments: Arguments) -> int:
    faults = check_recipe(arguments.name)
    for fault in faults:
        print(printable(str(fault)))
    print(f"{printable(arguments.name)}: {len(faults) or 'no'} fault{'' if len(faults) == 1 else 's'}")
    return _USAGE if faults else 0
