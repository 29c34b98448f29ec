"""Applying a recipe: names and lazy arrays in, names and lazy arrays out, with the trail of rules on every tensor.

Not here: reading recipes (`importer.recipes.reading`), and module types (`importer.adapters`, `importer.plan`).
"""
