"""The small languages in a recipe's texts: patterns, replacements, expressions over the config, formulas over values.

Not here: where they stand in a recipe (`importer.recipes.reading`), and what they act on (`importer.recipes.applying`).
"""
