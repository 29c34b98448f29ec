"""Where in a source the model's weights lie: the one sensible place below which `convert` reads, and the other ones.

Not here: what the names below mean.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from importer.checkpoint.walking import Branch

__all__ = ["candidate_roots", "choose_root", "root_of_names"]

_WEIGHTS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "module",
    "net",
    "network",
    "weights",
    "params_ema",
    "params",
    "generator",
    "ema",
    "model_ema",
    "ema_state_dict",
    "state",
)
"""Keys that published training checkpoints keep their weights under, the likeliest first. `params_ema` stands before
`params`, as the programs that write both load it (ESRGAN and kin)."""

_NO_WEIGHTS = re.compile(
    r"optim|sched|scaler|callback|loop|rng|random|(^|_)(lr|amp|hparams?|args?|config|metrics?|history|grads?|opt)(_|$)",
    re.IGNORECASE,
)
"""Keys of what is saved beside the weights; never a root, and nothing below them."""


def choose_root(top: Branch) -> str:
    """Return the dotted path below which the weights lie: the deepest place that is the only sensible one."""
    branch = top
    while (inner := _inner(branch)) is not None:
        branch = inner
    return branch.path


def candidate_roots(top: Branch) -> tuple[str, ...]:
    """Return every place that could be the root, the chosen one first."""
    chosen = choose_root(top)
    others = [branch.path for branch in _with_tensors(top) if branch.path != chosen]
    return (chosen, *others) if top.total else ()


def root_of_names(names: Collection[str], beside: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the places that could be the root where only flat names are known, the likeliest first.

    The first part of the names is the root if everything beside it is no weights: `model.…` beside `optimizer.…`, or
    beside values that are no tensors (`epoch`).

    Args:
        names: of the tensors.
        beside: names of everything else.
    """
    firsts = dict.fromkeys(name.partition(".")[0] for name in names if "." in name)
    weights = [first for first in firsts if not _NO_WEIGHTS.search(first)]
    has_values = any("." not in name for name in beside) and all("." in name for name in names)
    if len(weights) == 1 and (len(firsts) > 1 or has_values):
        return (weights[0], "")
    return ("",)


def _inner(branch: Branch) -> Branch | None:
    """Return the container within `branch` that holds the weights, or None if `branch` itself does."""
    if branch.kind == "module":
        return None
    inside = [child for child in branch.children if child.total and not _NO_WEIGHTS.search(child.key)]
    known = [child for key in _WEIGHTS for child in inside if child.key == key]
    if known:
        return known[0] if known[0].total > branch.direct else None
    if branch.direct == 0 and len(inside) == 1:
        return inside[0]
    return None


def _with_tensors(top: Branch) -> Iterator[Branch]:
    """Yield the containers that hold tensors themselves or are modules, outermost first, modules not entered."""
    pending = [top]
    while pending:
        branch = pending.pop()
        if branch.direct or branch.kind == "module":
            yield branch
        if branch.kind != "module":
            pending.extend(
                child for child in reversed(branch.children) if child.total and not _NO_WEIGHTS.search(child.key)
            )
