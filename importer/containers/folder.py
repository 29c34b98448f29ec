"""Which files of a folder are the weights: names only, nothing is opened.

The order of preference is that of transformers and diffusers, then what training frameworks leave behind. Where the names
leave a choice, it is the user's. Not here: opening (`detecting`), and saying what a folder without weights is
(`folder_kinds`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from importer.containers.folder_kinds import describe_folder, listed
from importer.errors import Location, MissingFileError, SourceError, UsageError

__all__ = ["Candidate", "CandidateKind", "find_config", "find_weights"]

_CONFIGS = ("config.json", "params.json")


class CandidateKind(Enum):
    """How the files of a candidate belong together."""

    FILE = "file"
    INDEX = "index"
    SHARDS = "shards"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Files that could be the weights: one file, one index, numbered shards without an index, or tensor-parallel slices."""

    kind: CandidateKind
    paths: tuple[Path, ...]


# What transformers and diffusers look for, in their order: a whole file, then an index; an index-less set is ours.
_WHOLE = (("model", "safetensors"), ("diffusion_pytorch_model", "safetensors"), ("pytorch_model", "bin"))
_VARIANT = r"[A-Za-z]\w*"
# The first pattern with a match wins; the patterns are full matches. Several matches are a choice for the user.
_OTHERS = (
    r"diffusion_pytorch_model\.bin",
    r"consolidated\.safetensors",
    r"consolidated\.\d+\.pth",
    r"\.metadata",
    r"mp_rank_\d+_model_states\.pt",
    r".+(?<!\.msgpack)(?<!\.h5)\.index\.json",
    r".+\.(?:safetensors|bpk|pt|pth|bin|ckpt)",
    r".+\.(?:th|pt2|pkl|pth\.tar)",
)
_SLICES = r"consolidated\.\d+\.pth"
_SHARD = re.compile(r"(?P<stem>.+?)[-_.](?P<number>\d+)-of-(?P<total>\d+)\.(?P<extension>safetensors|bin|pt|pth|ckpt)")
# What trainers and exporters save beside the weights and is none, or is a rank's part of them only.
_NO_WEIGHTS = re.compile(
    r"(?:training_args|optimizer|scheduler|scaler|rng_state.*|random_states.*|.*optim_states)\.\w+"
    r"|(?:bf16_)?zero_pp_rank_.*|layer_\d+-model_\d+-model_states\.pt|openvino_.*\.bin"
)


def find_weights(folder: Path) -> tuple[Candidate, ...]:
    """Return what could be the weights, the first being meant; the others are for where an index leads nowhere.

    Raises:
        UnknownContainerError: there are no weights in the folder; says what it is.
        UsageError: more than one file could be meant; lists them.
        MissingFileError: there are numbered shards only, and not all of them.
        SourceError: the folder cannot be read.
    """
    where = Location(path=str(folder))
    every = _file_names(folder, where)
    if {"data.pkl", "version"} <= every:
        raise describe_folder(folder, every)
    names = sorted(name for name in every if not _NO_WEIGHTS.fullmatch(name))
    well_known = [
        *(one for stem, extension in _WHOLE for one in _of_stem(folder, names, stem, extension)),
        *_other_shards(folder, names),
    ]
    if well_known:
        return tuple(well_known)
    variants = [one for stem, extension in _WHOLE for one in _variants(folder, names, stem, extension)]
    if len(variants) == 1:
        return tuple(variants)
    if variants:
        raise _ambiguous([one.paths[0].name for one in variants], where)
    return (_other(folder, names, where),)


def find_config(folder: Path) -> Path | None:
    """Return the configuration that lies beside weights in `folder`."""
    return next((folder / name for name in _CONFIGS if (folder / name).is_file()), None)


def _of_stem(folder: Path, names: Collection[str], stem: str, extension: str) -> Iterator[Candidate]:
    """Yield the whole file, the index and the complete shards of one name."""
    if (whole := f"{stem}.{extension}") in names:
        yield Candidate(CandidateKind.FILE, (folder / whole,))
    if (index := f"{stem}.{extension}.index.json") in names:
        yield Candidate(CandidateKind.INDEX, (folder / index,))
    shards = _shards(names).get((stem, extension))
    if shards is not None and shards.is_complete:
        yield Candidate(CandidateKind.SHARDS, tuple(folder / name for name in shards.names))


def _variants(folder: Path, names: Collection[str], stem: str, extension: str) -> Iterator[Candidate]:
    """Yield the same for names with a variant in them (`fp16`): the two spellings of an index, and the whole file."""
    stem, extension = re.escape(stem), re.escape(extension)
    whole = re.compile(rf"{stem}\.{_VARIANT}\.{extension}")
    index = re.compile(rf"{stem}\.{extension}\.index\.{_VARIANT}\.json|{stem}\.{_VARIANT}\.{extension}\.index\.json")
    for pattern, kind in ((whole, CandidateKind.FILE), (index, CandidateKind.INDEX)):
        yield from (Candidate(kind, (folder / name,)) for name in names if pattern.fullmatch(name))


def _other_shards(folder: Path, names: Collection[str]) -> Iterator[Candidate]:
    """Yield complete numbered sets of any other name, unless an index lists them.

    Raises:
        MissingFileError: there is one set only, no other weights, and parts of it are missing.
    """
    known = {(stem, extension) for stem, extension in _WHOLE}
    sets = {key: shards for key, shards in _shards(names).items() if key not in known}
    if any(name.endswith(".json") and ".index." in name for name in names):
        return
    complete = [shards for shards in sets.values() if shards.is_complete]
    if len(complete) == 1:
        yield Candidate(CandidateKind.SHARDS, tuple(folder / name for name in complete[0].names))


@dataclass(slots=True)
class _Shards:
    """The files of one numbered set that are there."""

    total: int
    by_number: dict[int, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order of their numbers."""
        return tuple(self.by_number[number] for number in sorted(self.by_number))

    @property
    def first(self) -> int:
        """Number of the first: counted from 1 by transformers, from 0 by others."""
        return 0 if 0 in self.by_number else 1

    @property
    def is_complete(self) -> bool:
        """Whether every one is there."""
        return sorted(self.by_number) == list(range(self.first, self.first + self.total))


def _shards(names: Iterable[str]) -> dict[tuple[str, str], _Shards]:
    """Return the numbered sets by stem and extension; of two totals for one name neither counts as a set."""
    found: dict[tuple[str, str, int], _Shards] = {}
    for name in names:
        match = _SHARD.fullmatch(name)
        if match is not None and len(match["total"]) <= _LONGEST_TOTAL:
            total = int(match["total"])
            key = (match["stem"], match["extension"], total)
            found.setdefault(key, _Shards(total, {})).by_number[int(match["number"])] = name
    by_name: dict[tuple[str, str], list[_Shards]] = {}
    for (stem, extension, _), shards in found.items():
        by_name.setdefault((stem, extension), []).append(shards)
    return {key: sets[0] for key, sets in by_name.items() if len(sets) == 1}


_LONGEST_TOTAL = 6


def _other(folder: Path, names: Collection[str], where: Location) -> Candidate:
    """Return the one file, or the slices, of the first pattern that matches anything."""
    for pattern in _OTHERS:
        found = [name for name in names if re.fullmatch(pattern, name)]
        if len(found) == 1 or (found and pattern == _SLICES):
            kind = (
                CandidateKind.INDEX
                if found[0].endswith(".index.json")
                else CandidateKind.SLICES
                if len(found) > 1
                else CandidateKind.FILE
            )
            return Candidate(kind, tuple(folder / name for name in found))
        if found:
            _refuse_incomplete(found, where)
            raise _ambiguous(found, where)
    raise describe_folder(folder, _file_names(folder, where))


def _refuse_incomplete(found: Collection[str], where: Location) -> None:
    """Raise for a set of numbered shards with holes.

    Raises:
        MissingFileError: all of `found` are shards of one set, others of which are missing.
    """
    sets = _shards(found)
    if len(sets) != 1 or sum(len(shards.by_number) for shards in sets.values()) != len(found):
        return
    (((stem, extension), shards),) = sets.items()
    missing = set(range(shards.first, shards.first + shards.total)) - shards.by_number.keys()
    width = len(next(iter(shards.names)).rpartition("-of-")[2].partition(".")[0])
    absent = [f"{stem}-{number:0{width}}-of-{shards.total:0{width}}.{extension}" for number in sorted(missing)[:_SHOWN]]
    raise MissingFileError(
        f"{len(missing)} of {shards.total} shards are missing: {listed(absent)}",
        where=where,
        how="Download the missing files into the same folder.",
    )


_SHOWN = 5


def _ambiguous(found: Collection[str], where: Location) -> UsageError:
    ranks = re.compile(r"mp_rank_\d+_model_states\.pt")
    if all(ranks.fullmatch(name) for name in found):
        return UsageError(
            f"the folder holds {len(found)} tensor-parallel ranks of one model: {listed(found)}",
            where=where,
            how="Merge them where they were trained (DeepSpeed and Megatron have scripts for it), or pass one rank.",
        )
    return UsageError(
        f"the folder holds {len(found)} files that could be meant: {listed(found)}",
        where=where,
        how="Pass one of them.",
    )


def _file_names(folder: Path, where: Location) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except OSError as error:
        raise SourceError(
            f"the folder cannot be read: {error.strerror}", where=where, how="Check its permissions."
        ) from error
