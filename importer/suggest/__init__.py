"""Drafting recipes: a target template from a skeleton, and a whole recipe from a checkpoint and a skeleton.

A draft is for a person to read: what names and shapes do not settle is marked in it. Not here: applying recipes.
"""

from importer.suggest.skeleton import TargetUnit, read_units
from importer.suggest.template_text import template_text

__all__ = ["TargetUnit", "read_units", "template_text"]
