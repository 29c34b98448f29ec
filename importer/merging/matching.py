"""Which tensor of the base a module of an adapter means.

Dotted names are those of the base, perhaps with other levels before them; kohya's have lost their dots, which only the base's own
names bring back. Not here: what is done with the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from importer.merging.blocks import diffusers_spelling

__all__ = ["BaseNames"]

_COMPONENTS = {
    "lora_unet_": ("unet/", "transformer/", "model.diffusion_model.", ""),
    "lora_transformer_": ("transformer/", ""),
    "lora_te_": ("text_encoder/", "cond_stage_model.transformer.", ""),
    "lora_te1_": ("text_encoder/", "conditioner.embedders.0.transformer.", ""),
    "lora_te2_": ("text_encoder_2/", "conditioner.embedders.1.transformer.", ""),
    "lora_te3_": ("text_encoder_3/", ""),
}
_OPTIONAL = ("text_model.", "model.")
"""Levels that one release of a library has and another has not."""


class BaseNames:
    """Names of the base, by module and leaf, in the ways adapters spell them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._by_tail: dict[str, list[str]] = {}
        self._by_underscores: dict[str, list[str]] = {}
        for name in self._names:
            module = name.rpartition(".")[0]
            self._by_tail.setdefault(name.replace("/", ".").rpartition(".")[2], []).append(name)
            if name.endswith(".weight"):
                self._by_underscores.setdefault(_underscored(module), []).append(name)

    def of_name(self, name: str) -> str | None:
        """Return the tensor of a dotted name: itself, or the only one that is the same but for levels before it."""
        if name in self._names:
            return name
        wanted = name.replace("/", ".").split(".")
        best: list[str] = []
        longest = 1  # the leaf alone says nothing
        for candidate in self._by_tail.get(wanted[-1], []):
            parts = candidate.replace("/", ".").split(".")
            common = _common_tail(wanted, parts)
            # one of the two has to be the whole tail of the other, but for a level that releases differ in
            if common < min(len(wanted), len(parts)) - _optional(wanted, parts, common) or common <= 1:
                continue
            if common > longest:
                best, longest = [candidate], common
            elif common == longest:
                best.append(candidate)
        return best[0] if len(best) == 1 else None

    def of_kohya(self, module: str) -> str | None:
        """Return the weight of a module whose dots are underscores."""
        for prefix, components in _COMPONENTS.items():
            if not module.startswith(prefix):
                continue
            rest = module.removeprefix(prefix)
            spellings = [rest, *diffusers_spelling(rest)]
            for component, spelling in product(components, spellings):
                found = self._of_underscores(component, spelling)
                if found is not None:
                    return found
        return None

    def has_component(self, module: str) -> bool:
        """Whether the base has the part of a pipeline that a module of kohya's belongs to."""
        text = module.startswith("lora_te")
        return any(
            ("text_model." in name or "text_encoder" in name or "embeddings.token_embedding" in name) == text
            for name in self._names
        )

    def _of_underscores(self, component: str, spelling: str) -> str | None:
        keys = {_underscored(component) + spelling}
        for level in _OPTIONAL:
            flat = _underscored(level)
            if spelling.startswith(flat):
                keys.add(_underscored(component) + spelling.removeprefix(flat))
            keys.add(_underscored(component) + flat + spelling)
        found = [name for key in keys for name in self._by_underscores.get(key, ())]
        return found[0] if len(found) == 1 else None


def _underscored(name: str) -> str:
    return name.replace(".", "_").replace("/", "_")


def _common_tail(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if one != other:
            break
        count += 1
    return count


def _optional(wanted: list[str], parts: list[str], common: int) -> int:
    """Return how many parts may differ before the common tail: a level of one of them that the other has not."""
    for names in (wanted, parts):
        rest = names[: len(names) - common]
        if rest and f"{rest[-1]}." in _OPTIONAL:
            return 0 if len(rest) == len(names) else 1
    return 0
