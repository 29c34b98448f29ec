"""Parameter ids for burnpack: stable ones that follow from the name alone.

Burn keys optimizer state by these 64-bit ids; a file without them gets random ones on load (burn-spec 1.4). Not here: ids
taken over from a target (`importer.plan.target_check`).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["stable_ids"]


def stable_ids(names: Iterable[str]) -> dict[str, int]:
    """Return an id for every name: the first 8 bytes, little-endian, of the SHA-256 of its UTF-8, never one twice.

    Two names that collide (one chance in 2**64 for a pair) are told apart by hashing again, in the order given.
    """
    from hashlib import sha256

    ids: dict[str, int] = {}
    used: set[int] = set()
    for name in names:
        digest = sha256(name.encode("utf-8", "surrogatepass")).digest()
        while (number := int.from_bytes(digest[:8], "little")) in used:
            digest = sha256(digest).digest()
        used.add(number)
        ids[name] = number
    return ids
