"""`importer inspect`: everything a checkpoint holds, as a tree for people or one JSON object for scripts.

Not here: reading (`importer.checkpoint`). Without `--sha256` no tensor byte is read and numpy is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from importer.arrays import blocks, source_files
from importer.checkpoint import Checkpoint, Tensor, open_checkpoint
from importer.checkpoint.nested_values import read_value
from importer.cli.arguments import Arguments
from importer.cli.tree import human_size, tree_lines
from importer.errors import printable
from importer.merging import adapter_summary

__all__ = ["INSPECT_SCHEMA_VERSION", "listing", "run"]

INSPECT_SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes meaning or goes away; new fields do not raise it."""

_DIGEST_BYTES = 4 << 20
_SHOWN_VALUES = 20
_SHOWN_GROUPS = 20


def run(arguments: Arguments) -> int:
    """Print the listing of one checkpoint."""
    options = arguments.options
    if arguments.value is not None:
        print(json.dumps(read_value(arguments.source, arguments.value, options), indent=1))
        return 0
    checkpoint = open_checkpoint(arguments.source, options)
    adapter = adapter_summary(checkpoint, options.limits)
    if arguments.json:
        lines = [_json_text({**listing(checkpoint, sha256=arguments.sha256), "adapter": adapter})]
    else:
        lines = list(_text(checkpoint, adapter, fold=not arguments.all, sha256=arguments.sha256))
    if arguments.sha256:
        for file in source_files(
            tensor.array for tensor in (*checkpoint.tensors.values(), *checkpoint.arrays.values())
        ):
            file.check_unchanged()
    for line in lines:
        print(line)
    return 0


def listing(checkpoint: Checkpoint, *, sha256: bool = False) -> dict[str, object]:
    """Return the JSON object `inspect --json` prints.

    `sha256` adds the digest of every tensor's elements as little-endian C-contiguous bytes; this reads them.
    """
    return {
        "schema_version": INSPECT_SCHEMA_VERSION,
        "container": checkpoint.container,
        "paths": list(checkpoint.paths),
        "root": checkpoint.root,
        "root_candidates": list(checkpoint.root_candidates),
        "tensors": [_entry(tensor, sha256=sha256) for tensor in checkpoint.tensors.values()],
        "aliases": [list(group) for group in checkpoint.aliases],
        "unsupported": [
            {"name": entry.name, "kind": entry.kind, "reason": entry.reason} for entry in checkpoint.unsupported
        ],
        "arrays": [_entry(array, sha256=sha256) for array in checkpoint.arrays.values()],
        "values": {name: _json_value(value) for name, value in checkpoint.values.items()},
        "modules": {path: module.class_name for path, module in checkpoint.modules.items()},
        "foreign_globals": [entry.name for entry in checkpoint.foreign_globals],
        "called_globals": [entry.name for entry in checkpoint.foreign_globals if entry.called],
        "metadata": dict(checkpoint.metadata),
        "scalars": {name: _json_value(value) for name, value in checkpoint.scalars.items()},
        "param_ids": dict(checkpoint.param_ids),
        "config": checkpoint.config_path,
        "quantization": _quantization(checkpoint),
        "facts": dict(checkpoint.facts()),
        "notes": list(checkpoint.notes),
    }


def _quantization(checkpoint: Checkpoint) -> dict[str, object] | None:
    """Return how weights are quantised: format, names with what each is stored in, and sizes."""
    found = checkpoint.quantization
    if found is None:
        return None
    return {
        "format": found.label,
        "tensors": {name: list(parts) for name, parts in found.weights.items()},
        "no_weights": dict(found.aside),
        "stored_bytes": found.stored_bytes,
        "expanded_bytes": found.expanded_bytes,
        "fault": found.fault,
    }


def _json_text(document: dict[str, object]) -> str:
    """Return a JSON object with a line for every field, and for every element of a list.

    `json` itself indents in pure Python only, which for 100,000 tensors takes longer than to find them.
    """
    encode = json.JSONEncoder().encode  # escapes all but ASCII, so that no locale can make it invalid
    fields = []
    for name, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n  {}\n ]".format(",\n  ".join(map(encode, value)))
        else:
            text = encode(value)
        fields.append(f" {encode(name)}: {text}")
    return "{{\n{}\n}}".format(",\n".join(fields))


def _entry(tensor: Tensor, *, sha256: bool) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": tensor.name,
        "dtype": tensor.dtype.name,
        "shape": list(tensor.shape),
        "module_type": tensor.module_type,
    }
    if sha256:
        entry["sha256"] = _digest(tensor)
    return entry


def _digest(tensor: Tensor) -> str:
    """Return the SHA-256 of the elements as little-endian, C-contiguous bytes, read block by block."""
    from hashlib import sha256

    digest = sha256()
    for block in blocks(tensor.array, block_bytes=_DIGEST_BYTES):
        digest.update(block)
    return digest.hexdigest()


def _json_value(value: object) -> object:
    """Return a plain value as JSON can say it; floats that JSON lacks, bytes and the rest as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return printable(str(value))


def _text(checkpoint: Checkpoint, adapter: str | None, *, fold: bool, sha256: bool) -> Iterator[str]:
    size = sum(tensor.nbytes for tensor in checkpoint.tensors.values())
    count = f"{len(checkpoint)} tensor{'' if len(checkpoint) == 1 else 's'}"
    yield f"{printable(checkpoint.paths[0])}: {checkpoint.container}, {count}, {human_size(size)}"
    if checkpoint.root or len(checkpoint.root_candidates) > 1:
        others = [candidate for candidate in checkpoint.root_candidates if candidate != checkpoint.root]
        also = f" (also: {', '.join(map(_root, others))})" if others else ""
        yield f"root: {_root(checkpoint.root)}{also}"
    if checkpoint.config_path:
        yield f"config: {printable(checkpoint.config_path)}"
    if adapter is not None:
        yield f"adapter: {printable(adapter)}"
    yield from _quantized(checkpoint)
    yield from tree_lines(checkpoint.tensors.values(), fold=fold)
    yield from _totals(checkpoint.tensors.values())
    if sha256:
        yield ""
        yield from (f"{_digest(tensor)}  {printable(tensor.name)}" for tensor in checkpoint.tensors.values())
    yield from _rest(checkpoint)


def _quantized(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what `convert_command` will make of quantised weights."""
    found = checkpoint.quantization
    if found is None:
        return
    if found.fault is not None:
        yield f"quantised: {printable(found.label)}, cannot be read: {printable(found.fault)}"
    elif found.weights:
        count = f"{len(found.weights)} tensor{'' if len(found.weights) == 1 else 's'}"
        sizes = f"{human_size(found.stored_bytes)}, {human_size(found.expanded_bytes)} as real values"
        yield f"quantised: {printable(found.label)}; {count}, {sizes}"


def _root(root: str) -> str:
    return printable(root) or "the top"


def _totals(tensors: Iterable[Tensor]) -> Iterator[str]:
    """Yield one line for each dtype with its count and size."""
    totals: dict[str, list[int]] = {}
    for tensor in tensors:
        total = totals.setdefault(tensor.dtype.name, [0, 0])
        total[0] += 1
        total[1] += tensor.nbytes
    if totals:
        yield "by dtype: " + ", ".join(f"{name} {count} ({human_size(size)})" for name, (count, size) in totals.items())


def _rest(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what is in the file beside dense tensors."""
    yield from _section("shared tensors", (" = ".join(map(printable, group)) for group in checkpoint.aliases))
    yield from _section(
        "numpy arrays",
        (f"{printable(name)}  {array.dtype} {list(array.shape)}" for name, array in checkpoint.arrays.items()),
    )
    yield from _section(
        "not dense tensors",
        (f"{printable(entry.name)}  {entry.kind}: {printable(entry.reason)}" for entry in checkpoint.unsupported),
    )
    yield from _section(
        "values", (f"{printable(name)} = {_short(value)}" for name, value in checkpoint.values.items()), _SHOWN_VALUES
    )
    yield from _section("metadata", (f"{printable(k)} = {_short(v)}" for k, v in checkpoint.metadata.items()))
    yield from _section("scalars", (f"{printable(k)} = {_short(v)}" for k, v in checkpoint.scalars.items()))
    yield from _section(
        "classes and functions named in the file (none was imported or called; ! = a plain unpickler would call it)",
        (f"{'!' if entry.called else ' '} {printable(entry.name)}" for entry in checkpoint.foreign_globals),
    )
    yield from _section("notes", map(printable, checkpoint.notes))


def _short(value: object) -> str:
    text = printable(repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a terminal line


def _section(title: str, lines: Iterable[str], limit: int = _SHOWN_GROUPS) -> Iterator[str]:
    """Yield a titled list, at most `limit` lines and how many more there are; nothing for an empty one."""
    listed = list(lines)
    if not listed:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in listed[:limit])
    if len(listed) > limit:
        yield f"  … and {len(listed) - limit} more (all of them: --json)"
