"""What a folder is that has no weights of its own: told from the names in it and one level below, with what to pass.

Not here: finding weights (`folder`), and telling files by their bytes (`unrecognized`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from importer.errors import Location, UnknownContainerError, UnsupportedError, shown

__all__ = ["describe_folder", "listed", "part_notes"]

_SHOWN_NAMES = 8
_LOOKED_INTO = 200


class _Foreign(NamedTuple):
    """Names that show weights of another framework, what to call them, and what to do."""

    names: re.Pattern[str]
    what: str
    how: str


def _foreign(names: str, what: str, how: str) -> _Foreign:
    return _Foreign(re.compile(names), what, how)


_EXPORTED = "It cannot be converted back; pass the checkpoint it was made from."
_FOREIGN = (
    _foreign(
        r"flax_model.*\.msgpack|flax_model\.msgpack\.index\.json|diffusion_flax_model\.msgpack",
        "Flax weights only",
        "Load the model in transformers with from_flax=True and save_pretrained(), or take the PyTorch weights of the same model.",
    ),
    _foreign(
        r"tf_model.*\.h5|tf_model\.h5\.index\.json|saved_model\.pb|.*\.ckpt\.(?:index|meta|data-.*)|.*\.data-\d+-of-\d+|.*\.keras|keras_metadata\.pb|.*\.h5",
        "TensorFlow or Keras weights only",
        "Load the model in transformers with from_tf=True and save_pretrained(), or take the PyTorch weights of the same model.",
    ),
    _foreign(r".*\.onnx", "an ONNX model", _EXPORTED),
    _foreign(r".*\.gguf|ggml.*\.bin", "a GGUF or ggml model of llama.cpp", "Its weights are packed; pass the checkpoint it was made from."),
    _foreign(r"openvino_.*\.(?:xml|bin)", "a model of OpenVINO", _EXPORTED),
    _foreign(r".*\.(?:engine|plan)", "an engine of TensorRT", _EXPORTED),
    _foreign(r".*\.(?:tflite|pte|ptl|mlmodel)", "a model exported for devices", _EXPORTED),
    _foreign(r"rust_model\.ot", "weights for rust-bert (.ot) only", "Take the PyTorch weights of the same model."),
    _foreign(r".*\.npz", "numpy arrays, as MLX saves its weights", "Save the arrays as .safetensors."),
    _foreign(r".*\.mpk(?:\.gz)?", "records of an older Burn", "Load them with the Burn release that wrote them, and save the module as burnpack (.bpk)."),
    _foreign(
        r"_CHECKPOINT_METADATA|manifest\.ocdbt|_METADATA|_sharding",
        "a checkpoint of Orbax (JAX)",
        "Restore it with Orbax and save the arrays as .safetensors.",
    ),
    _foreign(r".*\.t7", "weights of Lua Torch", "Load them with torchfile and save a state dict."),
)  # fmt: skip

_ZERO_3 = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_\d+_model_states\.pt")
_ZERO_OPTIMIZER = re.compile(r"(?:bf16_)?zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt")
_PIPELINE = re.compile(r"layer_(\d+)-model_\d+-model_states\.pt")
_DISTRIBUTED_PART = re.compile(r"__\d+_\d+\.distcp")

_WEIGHTS = re.compile(
    r".+\.(?:safetensors|bpk|pt|pth|bin|ckpt|th|pt2)|.+\.index(?:\.\w+)?\.json|\.metadata|.+\.msgpack|.+\.h5"
)
_NO_WEIGHTS = re.compile(r"(?:training_args|optimizer|scheduler|scaler|rng_state.*|random_states.*)\.\w+|tokenizer.*")

# A file or folder that shows what kind of folder this is, and what to call it.
_KINDS = (
    ("model_index.json", "the root of a diffusers pipeline, with one model in each sub-folder"),
    ("modules.json", "the root of a sentence-transformers model, with one module in each sub-folder"),
    ("latest", "the root of a DeepSpeed checkpoint"),
    ("zero_to_fp32.py", "the root of a DeepSpeed checkpoint"),
    ("latest_checkpointed_iteration.txt", "the root of a Megatron-LM checkpoint, with one sub-folder for every iteration"),
)  # fmt: skip


def describe_folder(folder: Path, names: Collection[str]) -> UnknownContainerError | UnsupportedError:
    """Return the error for a folder without weights that can be read; `names` are those of its files."""
    where = Location(path=str(folder))
    for describe in (_partitioned, _unpacked, _of_parts):
        error = describe(folder, names, where)
        if error is not None:
            return error
    for kind in _FOREIGN:
        found = sorted(name for name in names if kind.names.fullmatch(name))
        if found:
            return UnknownContainerError(f"the folder holds {kind.what} ({listed(found)})", where=where, how=kind.how)
    return UnknownContainerError(
        f"there are no weights in this folder; it holds {listed(sorted(names)) or 'no files'}",
        where=where,
        how="Pass the folder with the .safetensors, .bin, .pt or .pth file, or the file itself.",
    )


def _partitioned(_folder: Path, names: Collection[str], where: Location) -> UnsupportedError | None:
    """Name weights that are spread over ranks or stages and have to be gathered first."""
    ranks = [name for name in names if _ZERO_3.fullmatch(name)]
    if ranks:
        return UnsupportedError(
            f"a ZeRO-3 checkpoint of DeepSpeed: every weight is partitioned over {len(ranks)} ranks",
            where=where,
            how="Gather the weights first, with the zero_to_fp32.py that DeepSpeed leaves beside the checkpoint "
            "(python zero_to_fp32.py FOLDER OUTPUT), and pass what it writes.",
        )
    layers = [name for name in names if _PIPELINE.fullmatch(name)]
    if layers:
        return UnsupportedError(
            f"a pipeline-parallel checkpoint of DeepSpeed: {len(layers)} files, one for every layer and rank",
            where=where,
            how="Merge the layers into one state dict where the model was trained, or pass single files.",
        )
    if any(map(_ZERO_OPTIMIZER.fullmatch, names)):
        return UnsupportedError(
            "the optimizer half of a DeepSpeed checkpoint: the mp_rank_00_model_states.pt beside it is missing",
            where=where,
            how="Copy the model states into the folder, or gather the weights with zero_to_fp32.py and pass what it writes.",
        )
    parts = [name for name in names if _DISTRIBUTED_PART.fullmatch(name)]
    if parts:
        return UnsupportedError(
            f"{len(parts)} data files of a distributed checkpoint without the .metadata that says what lies in them",
            where=where,
            how="Copy the hidden file '.metadata' into the folder as well.",
        )
    return None


def _unpacked(_folder: Path, names: Collection[str], where: Location) -> UnknownContainerError | None:
    if not {"data.pkl", "version"} <= set(names):
        return None
    return UnknownContainerError(
        "this folder is an unpacked checkpoint",
        where=where,
        how="Pass the file it was unpacked from, or pack it again without compression"
        " (python3 -m zipfile -c model.pt FOLDER).",
    )


def _of_parts(folder: Path, names: Collection[str], where: Location) -> UnknownContainerError | None:
    """Name the sub-folders that hold weights, and what makes a folder of such parts."""
    parts = _parts(folder)
    if not parts:
        return None
    kind = next((what for name, what in _KINDS if name in names or (folder / name).is_dir()), None)
    if kind is None:
        kind = (
            "a folder of checkpoints"
            if all(re.search(r"\d", part) for part in parts)
            else "a folder without weights of its own"
        )
    return UnknownContainerError(
        f"this is {kind}; weights lie in {listed(parts)}", where=where, how="Pass one of these sub-folders."
    )


def part_notes(folder: Path) -> tuple[str, ...]:
    """Return a remark where modules of a sentence-transformers model have weights of their own, which are not read."""
    if not (folder / "modules.json").is_file():
        return ()
    parts = _parts(folder)
    return (f"modules with weights of their own were not read: {listed(parts)}; pass them one by one",) if parts else ()


def _parts(folder: Path) -> list[str]:
    """Return the sub-folders with weights right in them, or one level below where none has any."""
    inner = _sub_folders(folder)
    parts = [path.name for path in inner if _has_weights(path)]
    if not parts:
        parts = [f"{path.name}/{below.name}" for path in inner for below in _sub_folders(path) if _has_weights(below)]
    return parts


def _sub_folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []
    return [folder / name for name in found[:_LOOKED_INTO]]


def _has_weights(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(
                _WEIGHTS.fullmatch(entry.name) and not _NO_WEIGHTS.fullmatch(entry.name) and entry.is_file()
                for entry in entries
            )
    except OSError:
        return False


def listed(names: Sequence[str] | Collection[str]) -> str:
    """Return names quoted and in a row, the first ones of many."""
    first = list(names)
    more = f" and {len(first) - _SHOWN_NAMES} more" if len(first) > _SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in first[:_SHOWN_NAMES]) + more
