"""Drafting recipes: a target template from a skeleton, and a whole recipe from a checkpoint and a skeleton.

A draft is for a person to read: what names and shapes do not settle is marked in it. Not here: applying recipes.
"""

from importer.suggest.comparison import Mark
from importer.suggest.drafting import Draft, draft_recipe
from importer.suggest.target_modules import TargetModule, read_target_modules
from importer.suggest.template_text import template_text

__all__ = ["Draft", "Mark", "TargetModule", "draft_recipe", "read_target_modules", "template_text"]
