"""Names without what training wrappers put into them: DataParallel, FSDP, torch.compile, activation checkpointing, Fabric.

Wrappers of the whole model stand before every name and may be doubled; FSDP, torch.compile and activation checkpointing wrap
blocks as well, so that theirs stand anywhere in a name. Not here: prefixes a recipe names itself (`strip`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["INNER_WRAPPERS", "OUTER_WRAPPERS", "shared_prefix", "unwrapped", "without_inner"]

OUTER_WRAPPERS = ("module.",)
"""An ordinary word, so that it counts as a wrapper's only where every name begins with it."""

INNER_WRAPPERS = (
    "_orig_mod.",  # torch.compile
    "_fsdp_wrapped_module.",  # FSDP of torch
    "_fpw_module.",  # FSDP of fairscale
    "_checkpoint_wrapped_module.",  # activation checkpointing
    "_forward_module.",  # Lightning Fabric
)
"""Names no module of a model has: wherever one stands between dots, a wrapper put it there."""

_INNER = re.compile(r"(?:^|(?<=\.))(?:" + "|".join(map(re.escape, INNER_WRAPPERS)) + ")")


def without_inner(name: str) -> str:
    """Return a name without the wrappers inside it."""
    return _INNER.sub("", name) if "._" in name or name.startswith("_") else name


def shared_prefix(prefixes: Sequence[str], names: Iterable[str]) -> str | None:
    """Return the first of the prefixes that every name has, with something behind it; None if there is none."""
    listed = list(names)
    for prefix in prefixes:
        if listed and all(name.startswith(prefix) and len(name) > len(prefix) for name in listed):
            return prefix
    return None


def unwrapped(names: Iterable[str]) -> list[str]:
    """Return every name as the wrapped model itself has it."""
    found = [without_inner(name) for name in names]
    while (prefix := shared_prefix(OUTER_WRAPPERS, found)) is not None:
        found = [name[len(prefix) :] for name in found]
    return found
