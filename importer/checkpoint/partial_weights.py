"""Refusal of sources that look whole and hold only one rank's part of the weights, or none of them.

    ZeRO-3 of DeepSpeed    every parameter is left empty, shape [0]; what it was stands under `param_shapes`
    FSDP of torch 1        parameters are flattened into `_flat_param`, cut over the ranks

Nothing in the file is damaged, so nothing but this looks at it twice. Not here: folders, whose names tell
(`importer.containers.folder_kinds`), and tensors that say themselves that they are a shard (`tensors`).
"""

from __future__ import annotations

from collections.abc import Mapping

from importer.checkpoint.contents import Tensor
from importer.errors import Location, UnsupportedError, shown

__all__ = ["refuse_partial"]

_EMPTY = (0,)
_PARAMETERS = ("weight", "bias")
_FLAT = ("_flat_param", "flat_param")
_FEWEST = 2


def refuse_partial(tensors: Mapping[str, Tensor], root: str, where: Location) -> None:
    """Refuse weights that were left empty or cut up when they were saved.

    Raises:
        UnsupportedError: says what the file is and how to get at the weights.
    """
    prefix = f"{root}." if root else ""
    names = [name for name in tensors if name.startswith(prefix)]
    empty = [name for name in names if tensors[name].shape == _EMPTY and name.rpartition(".")[2] in _PARAMETERS]
    named = [name for name in names if name.rpartition(".")[2] in _PARAMETERS]
    if len(empty) >= _FEWEST and 2 * len(empty) > len(named):
        raise UnsupportedError(
            f"{len(empty)} of {len(named)} parameters are empty, such as {shown(empty[0])}: the model was partitioned by"
            " DeepSpeed ZeRO-3 when it was saved",
            where=where,
            how="Gather the weights: run the zero_to_fp32.py that DeepSpeed leaves beside its checkpoints and pass what it "
            "writes, or save with stage3_gather_16bit_weights_on_model_save.",
        )
    flat = [name for name in names if name.rpartition(".")[2] in _FLAT and len(tensors[name].shape) == 1]
    if flat:
        raise UnsupportedError(
            f"{len(flat)} parameters are flattened by FSDP, such as {shown(flat[0])}: the file holds one rank's part of them",
            where=where,
            how="Save with StateDictType.FULL_STATE_DICT, or gather the shards where the model was trained.",
        )
