"""Weight norm and spectral norm: the stored factors fused into the weight that the layer uses.

Both spellings of each: the hooks of `torch.nn.utils` (`weight_g`, `weight_v`; `weight_orig`, `weight_u`, `weight_v`)
and its parametrizations (`parametrizations.weight.original0`, `original1`; `original`, `0._u`, `0._v`). Burn has
neither, so the fused weight is written. Formulas: burn-spec 7.1. Not here: the arithmetic (`importer.arrays`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from importer.adapters.layer_kind import Problem, problems_of
from importer.arrays import Array, spectral_norm, weight_norm
from importer.errors import TensorError, shown

__all__ = ["Part", "fused"]

_PARAMETRIZED = re.compile(r"^(?P<prefix>(?:.*\.)?)parametrizations\.(?P<name>[^.]+)\.(?P<rest>.+)$")
_FACTOR = re.compile(r"_(g|v|u|orig)$|(^|\.)parametrizations\.")
_HOOK_SPELLING = {"original0": "_g", "original1": "_v", "original": "_orig", "0._u": "_u", "0._v": "_v"}
_POWER_ITERATION = ("_orig", "_u", "_v")


@dataclass(frozen=True, slots=True)
class Part:
    """A torch-side tensor on its way: what it is made of so far, and the leaves of the file behind it."""

    array: Array
    sources: tuple[str, ...]
    note: str = ""


def fused(params: Mapping[str, Array], out_axis: int) -> tuple[dict[str, Part], list[Problem]]:
    """Replace the factors of normed weights by the weights themselves.

    Args:
        params: leaf → array, torch's orientation.
        out_axis: dimension spectral norm keeps (1 for transposed convolutions, else 0). Weight norm needs none: its
            axes are those where `g` has size 1.

    Returns:
        All leaves, each with its sources, in the order given (a fused weight stands where its first factor stood);
        and a fault per parametrization that is neither of the two, or whose factors do not fit.
    """
    if not any(map(_FACTOR.search, params)):
        return {name: Part(array, (name,)) for name, array in params.items()}, []
    hooks: dict[str, str] = {}
    faults: list[Problem] = []
    for name in params:
        match = _PARAMETRIZED.match(name)
        if match is not None and match["rest"] not in _HOOK_SPELLING:
            faults.append(_unknown_parametrization(name))
        elif hooks.setdefault(_as_hook(name), name) != name:
            faults.append(_twice(name, hooks[_as_hook(name)]))
    parts: dict[str, Part] = {}
    done: set[str] = set()
    for hook, name in hooks.items():
        base, factors = _factors(hook, hooks)
        if not factors:
            parts[hook] = Part(params[name], (name,))
        elif base in hooks:
            faults.append(_twice(name, hooks[base]))
        elif base not in done:
            done.add(base)
            try:
                parts[base] = _fuse([params[factor] for factor in factors], factors, out_axis)
            except TensorError as error:
                faults += problems_of(
                    factors, f"the factors of {shown(base)} do not fit: {error.what}", "Check the file."
                )
    return parts, faults


def _as_hook(name: str) -> str:
    """Return the spelling the older hooks would use for `name`."""
    match = _PARAMETRIZED.match(name)
    if match is None or match["rest"] not in _HOOK_SPELLING:
        return name
    return f"{match['prefix']}{match['name']}{_HOOK_SPELLING[match['rest']]}"


def _factors(hook: str, hooks: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the weight that `hook` is a factor of, and the file's names of all its factors."""
    base, _, suffix = hook.rpartition("_")
    for suffixes in (_POWER_ITERATION, ("_g", "_v")):
        names = [hooks.get(base + other) for other in suffixes]
        if base and f"_{suffix}" in suffixes and None not in names:
            return base, tuple(name for name in names if name is not None)
    return hook, ()


def _fuse(arrays: list[Array], names: tuple[str, ...], out_axis: int) -> Part:
    if len(arrays) == len(_POWER_ITERATION):
        weight, u, v = arrays
        return Part(spectral_norm(weight, u, v, out_axis), names, "spectral norm fused")
    g, v = arrays
    return Part(weight_norm(g, v), names, "weight norm fused")


def _twice(name: str, other: str) -> Problem:
    return Problem(name, f"{shown(name)} and {shown(other)} give the same weight", "Drop one of them in the recipe.")


def _unknown_parametrization(name: str) -> Problem:
    return Problem(
        name,
        f"{shown(name)} belongs to a parametrization other than weight norm and spectral norm",
        "Remove it where the model was trained (torch.nn.utils.parametrize.remove_parametrizations) and save again.",
    )
