"""Which files of a folder are the weights: names only, nothing is opened.

The order of preference is that of transformers and diffusers, then what training frameworks leave behind. Where the names
leave a choice, it is the user's. Not here: opening (`opening`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from importer.errors import Location, SourceError, UnknownContainerError, UsageError, shown

__all__ = ["find_config", "find_weights"]

_CONFIGS = ("config.json", "params.json")

# The first name or pattern with a match wins; the patterns are full matches. Several matches of one pattern are
# a choice for the user, except for the last capture: slices that belong together.
_PREFERENCES = (
    r"model\.safetensors\.index\.json",
    r"model\.safetensors",
    r"diffusion_pytorch_model\.safetensors\.index\.json",
    r"diffusion_pytorch_model\.safetensors",
    r"pytorch_model\.bin\.index\.json",
    r"pytorch_model\.bin",
    r"diffusion_pytorch_model\.bin",
    r"consolidated\.safetensors",
    r"consolidated\.\d+\.pth",
    r"\.metadata",
    r"mp_rank_\d+_model_states\.pt",
    r".+\.index\.json",
    r".+\.(?:safetensors|bpk|pt|pth|bin|ckpt)",
)
_SLICES = r"consolidated\.\d+\.pth"
# What trainers save beside the weights and is none.
_OTHER = re.compile(r"(?:training_args|optimizer|scheduler|scaler|rng_state.*|random_states.*|.*optim_states)\.\w+")
_SHOWN_NAMES = 8


def find_weights(folder: Path) -> tuple[Path, ...]:
    """Return the file to open, or the slices that are to be opened together.

    Raises:
        UnknownContainerError: there are no weights in the folder.
        UsageError: more than one file could be meant; lists them.
        SourceError: the folder cannot be read.
    """
    where = Location(path=str(folder))
    names = _file_names(folder, where)
    for pattern in _PREFERENCES:
        found = sorted(name for name in names if re.fullmatch(pattern, name) and not _OTHER.fullmatch(name))
        if len(found) == 1 or (found and pattern == _SLICES):
            return tuple(folder / name for name in found)
        if found:
            raise UsageError(
                f"the folder holds {len(found)} files that could be meant: {_listed(found)}",
                where=where,
                how="Pass one of them.",
            )
    if {"data.pkl", "version"} <= names:
        raise UnknownContainerError(
            "this folder is an unpacked checkpoint",
            where=where,
            how="Pass the file it was unpacked from, or pack it again without compression"
            " (python3 -m zipfile -c model.pt FOLDER).",
        )
    raise UnknownContainerError(
        f"there are no weights in this folder; it holds {_listed(sorted(names)) or 'no files'}",
        where=where,
        how="Pass the folder with the .safetensors, .bin, .pt or .pth file, or the file itself.",
    )


def find_config(folder: Path) -> Path | None:
    """Return the configuration that lies beside weights in `folder`."""
    return next((folder / name for name in _CONFIGS if (folder / name).is_file()), None)


def _file_names(folder: Path, where: Location) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except OSError as error:
        raise SourceError(
            f"the folder cannot be read: {error.strerror}", where=where, how="Check its permissions."
        ) from error


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in names[:_SHOWN_NAMES]) + more
