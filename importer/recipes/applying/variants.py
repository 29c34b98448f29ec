"""Enum variants in names: a segment in angle brackets (`blocks.0.<Basic>.conv1`) is one of a Burn enum's variants.

Burnpack names hold the variant; safetensors may leave it out (burn-store's `skip_enum_variants`). Not here: where names
come from.
"""

from __future__ import annotations

from importer.recipes.recipe import Variants

__all__ = ["with_variants"]


def with_variants(name: str, variants: Variants) -> str:
    """Return the name with its variants as plain segments (`keep`) or without them (`skip`)."""
    if "<" not in name:
        return name
    segments = name.split(".")
    if variants == "skip":
        return ".".join(segment for segment in segments if not _is_variant(segment))
    return ".".join(segment[1:-1] if _is_variant(segment) else segment for segment in segments)


def _is_variant(segment: str) -> bool:
    return len(segment) > len("<>") and segment.startswith("<") and segment.endswith(">")
