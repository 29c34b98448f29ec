"""YAML recipes: from text to frozen rules, and the engine that applies them and records who changed what."""

from importer.recipes.model import DTypePlan, DTypeRule, LayerCall, Recipe, RuleRef, TypeRule, Variants
from importer.recipes.outcome import (
    Choice,
    Entry,
    Fault,
    NamedArray,
    Remapped,
    Skipped,
    Template,
    TemplateLayer,
    TrailStep,
)

__all__ = [
    "Choice",
    "DTypePlan",
    "DTypeRule",
    "Entry",
    "Fault",
    "LayerCall",
    "NamedArray",
    "Recipe",
    "Remapped",
    "RuleRef",
    "Skipped",
    "Template",
    "TemplateLayer",
    "TrailStep",
    "TypeRule",
    "Variants",
]
