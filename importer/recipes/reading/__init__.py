"""From YAML text to a frozen recipe: places, shapes of values, sections, inheritance; every fault with its place.

Not here: finding the text (`importer.recipes.library`), and applying the recipe (`importer.recipes.applying`).
"""
