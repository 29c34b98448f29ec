"""Drafting recipes: a target template from a skeleton, and a whole recipe from a checkpoint and a skeleton.

A draft is for a person to read: what names and shapes do not settle is marked in it. Not here: applying recipes.
"""

from importer.suggest.drafting import Draft, draft_recipe
from importer.suggest.findings import Mark
from importer.suggest.skeleton import TargetUnit, read_units
from importer.suggest.template_text import template_text

__all__ = ["Draft", "Mark", "TargetUnit", "draft_recipe", "read_units", "template_text"]
