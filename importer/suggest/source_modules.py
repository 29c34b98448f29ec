"""The tensors of a checkpoint gathered into modules, as far as names tell.

Not here: what the modules are (`importer.suggest.fitting` tries the layers of the target on them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from importer.arrays import Array

__all__ = ["SourceModule", "gather"]

_LEAF = re.compile(
    r"""^(?P<path>.+?)\.(?P<leaf>
        weight | bias | gamma | beta | running_mean | running_var | num_batches_tracked
      | weight_[guv] | weight_orig | parametrizations\.\w+\.(original\d*|0\._[uv])
      | (weight|bias)_(ih|hh)(_l\d+(_reverse)?)? | weight_hr_l\d+(_reverse)?
      | in_proj_(weight|bias) | [qkv]_proj_weight | bias_[kv] | out_proj\.(weight|bias)
    )$""",
    re.VERBOSE,
)
_OWN_WEIGHT = re.compile(r"^(weight|gamma|running_mean|parametrizations|in_proj_weight|q_proj_weight)")


@dataclass(frozen=True, slots=True, eq=False)
class SourceModule:
    """A module of the checkpoint, or one tensor that belongs to none.

    Attributes:
        path: dotted path below the root; of a lone tensor its whole name.
        leaves: name inside the module → lazy values; "" for a lone tensor.
    """

    path: str
    leaves: Mapping[str, Array]

    def names(self) -> tuple[str, ...]:
        """Return the full names of its tensors."""
        return tuple(f"{self.path}.{leaf}" if leaf else self.path for leaf in self.leaves)

    def alone(self, leaf: str) -> SourceModule:
        """Return one of its tensors as a unit of its own."""
        return SourceModule(f"{self.path}.{leaf}" if leaf else self.path, {"": self.leaves[leaf]})


def gather(arrays: Mapping[str, Array]) -> tuple[SourceModule, ...]:
    """Return the modules and lone tensors of a checkpoint in its order."""
    fused = {name.rpartition(".")[0] for name in arrays if name.endswith((".in_proj_weight", ".q_proj_weight"))}
    modules: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        path, leaf = _place(name, fused)
        modules.setdefault(path, {})[leaf] = array
    units: list[SourceModule] = []
    for path, leaves in modules.items():
        if any(map(_OWN_WEIGHT.match, leaves)) or "" in leaves:
            units.append(SourceModule(path, leaves))
        else:
            units += [SourceModule(path, leaves).alone(leaf) for leaf in leaves]
    return tuple(units)


def _place(name: str, fused: set[str]) -> tuple[str, str]:
    """Return the module and the name inside it; the output projection of a fused attention belongs to that."""
    match = _LEAF.match(name)
    if match is None:
        return name, ""
    path, leaf = match["path"], match["leaf"]
    if leaf.startswith("out_proj."):
        return (path, leaf) if path in fused else (f"{path}.out_proj", leaf.removeprefix("out_proj."))
    return path, leaf
