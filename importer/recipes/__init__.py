"""YAML recipes: from text to frozen rules, and the engine that applies them and records who changed what."""

from importer.recipes.applying.engine import apply_recipe, named_values, unwrap_root
from importer.recipes.applying.settling import in_tree_order
from importer.recipes.choosing import choose_recipe, objections
from importer.recipes.explaining import explain
from importer.recipes.language.patterns import Pattern, parse_pattern
from importer.recipes.library import (
    BuiltinRecipe,
    builtin_folder,
    check_recipe,
    find_builtin,
    list_builtin,
    load_recipe,
    parse_recipe,
)
from importer.recipes.outcome import (
    Choice,
    Entry,
    NamedArray,
    Near,
    Problem,
    Remapped,
    SettledSetting,
    Skipped,
    Template,
    TemplateLayer,
    TrailStep,
)
from importer.recipes.recipe import DTypePlan, DTypeRule, LayerCall, Recipe, RuleRef, TypeRule, Variants

__all__ = [
    "BuiltinRecipe",
    "Choice",
    "DTypePlan",
    "DTypeRule",
    "Entry",
    "LayerCall",
    "NamedArray",
    "Near",
    "Pattern",
    "Problem",
    "Recipe",
    "Remapped",
    "RuleRef",
    "SettledSetting",
    "Skipped",
    "Template",
    "TemplateLayer",
    "TrailStep",
    "TypeRule",
    "Variants",
    "apply_recipe",
    "builtin_folder",
    "check_recipe",
    "choose_recipe",
    "explain",
    "find_builtin",
    "in_tree_order",
    "list_builtin",
    "load_recipe",
    "named_values",
    "objections",
    "parse_pattern",
    "parse_recipe",
    "unwrap_root",
]
