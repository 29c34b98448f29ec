"""What a Rust module must be told besides the weights, with the values of one config.

Not here: printing it (`importer.report`).
"""

from __future__ import annotations

from importer.recipes.applying.scopes import ConfigScope
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import UnknownNameError
from importer.recipes.outcome import SettledSetting
from importer.recipes.recipe import Recipe

__all__ = ["settled_settings"]


def settled_settings(recipe: Recipe, scope: ConfigScope) -> tuple[SettledSetting, ...]:
    """Return every setting that has a value: a field that is absent or null says nothing.

    Raises:
        RecipeError: an expression does not fit the values of the config; with the place.
    """
    settled = []
    for setting in recipe.settings.values():
        try:
            value = scope.value(setting.expression)
        except UnknownNameError:
            continue
        except TextError as error:
            raise error.at(setting.rule.location) from error
        if value is not None:
            settled.append(SettledSetting(setting.name, value, setting.rule))
    return tuple(settled)
