"""From what the user names, one source or several and adapters to merge, to one checkpoint.

Not here: joining names (`importer.checkpoint`), and the merge itself (`applying`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from importer.checkpoint import Checkpoint, component_folders, join_checkpoints, open_checkpoint
from importer.containers import read_json_object
from importer.errors import DecisionNeededError, Location, UsageError, shown
from importer.limits import Limits
from importer.merging.recognising import AdapterKind, adapter_kind
from importer.options import Options

__all__ = ["adapter_alone", "adapter_summary", "open_sources", "split_weight"]

PathLike = str | os.PathLike[str]

_SETTINGS = "adapter_config.json"
_FILES = ("adapter_model.safetensors", "adapter_model.bin")


def open_sources(sources: Sequence[PathLike], options: Options) -> Checkpoint:
    """Open everything, join it, and work the adapters in.

    Raises:
        UsageError: prefixes and sources are not as many, two sources have a tensor of one name, or an adapter does not
            belong to the base.
        ImporterError: as `open_checkpoint`.
    """
    paths = [Path(source) for source in sources]
    prefixes = list(options.prefix)
    if len(paths) == 1 and options.merge and not prefixes and (components := component_folders(paths[0])):
        paths, prefixes = list(components), [f"{component.name}/" for component in components]
    if prefixes and len(prefixes) != len(paths):
        raise UsageError(
            f"there are {len(prefixes)} prefixes for {len(paths)} sources",
            how='Give --prefix once for each source, in their order; "" for none.',
        )
    if len(paths) > 1 and options.root is not None:
        raise UsageError(
            "--root says where the weights of one source lie, and there are several",
            how="Leave it out: the root of each is found.",
        )
    opened = [open_checkpoint(path, options) for path in paths]
    if len(opened) > 1 or any(prefixes):
        opened = [join_checkpoints(opened, prefixes or [""] * len(opened))]
    checkpoint = opened[0]
    for text in options.merge:
        from importer.merging.applying import merge_adapter  # the sums, only where there are some

        path, weight = split_weight(text)
        adapter = open_checkpoint(_file_of(Path(path)), replace(options, root=None))
        checkpoint = merge_adapter(checkpoint, adapter, _settings(adapter, options.limits), weight)
    return checkpoint


def split_weight(text: str) -> tuple[str, float]:
    """Return path and weight of `PATH` or `PATH=WEIGHT`; a path may hold a `=` of its own."""
    path, sign, number = text.rpartition("=")
    if sign and not os.path.lexists(text):
        try:
            weight = float(number)
        except ValueError:
            return text, 1.0
        if weight - weight == 0:
            return path, weight
        raise UsageError(f"the weight of {shown(path)} is {shown(number)}", how="Give a number, like 0.8.")
    return text, 1.0


def adapter_alone(checkpoint: Checkpoint, limits: Limits) -> DecisionNeededError | None:
    """Return the error for a source that is an adapter and no model; None if it is a model."""
    kind = adapter_kind(checkpoint.tensors)
    if kind is None:
        return None
    path = checkpoint.paths[0]
    base = _base_of(_settings(checkpoint, limits))
    return DecisionNeededError(
        f"this is an adapter ({kind.value}){f' for {shown(base)}' if base else ''}, not a model",
        where=Location(path=path),
        how="Pass its base as the source, and the adapter with --merge:",
        lines=(f"  importer convert {base if base and os.path.lexists(base) else 'BASE'} OUT --merge {path}",),
    )


def adapter_summary(checkpoint: Checkpoint, limits: Limits) -> str | None:
    """Return what a listing says of an adapter; None if the source is none."""
    kind = adapter_kind(checkpoint.tensors)
    if kind is None:
        return None
    settings = _settings(checkpoint, limits) or {}
    rank = f", rank {settings['r']}, alpha {settings.get('lora_alpha')}" if isinstance(settings.get("r"), int) else ""
    base = _base_of(settings)
    return f"{kind.value}{rank}{f', of {base}' if base else ''}; merge it into its base with --merge"


def _base_of(settings: Mapping[str, object] | None) -> str | None:
    base = (settings or {}).get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def _file_of(path: Path) -> Path:
    """Return the weights of an adapter's folder, which may hold other files as well."""
    return next((path / name for name in _FILES if (path / name).is_file()), path)


def _settings(adapter: Checkpoint, limits: Limits) -> Mapping[str, object] | None:
    path = Path(adapter.paths[0]).parent / _SETTINGS
    if adapter_kind(adapter.tensors) is AdapterKind.KOHYA or not path.is_file():
        return None
    return read_json_object(path, limits)
