"""Quantised weights in a plan: which stored tensors are kept from the rules, and what the report says of them.

Not here: unpacking (`importer.quantized`), which has happened where it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from importer.checkpoint import Checkpoint, Quantization
from importer.errors import Location, UnsupportedError
from importer.plan.planned import PlannedTensor, Problem, Skipped

__all__ = ["packed_faults", "set_aside", "unpacked_note", "with_stored_sources", "withheld_names"]

_HOW = "Convert with --quantized dequantize for real values, or --quantized integers for codes and scales."


def withheld_names(quantization: Quantization) -> frozenset[str]:
    """Return the stored tensors that no rule may see, where weights are only reported."""
    if quantization.choice != "report":
        return frozenset()
    parts = (part for stored in quantization.weights.values() for part in stored)
    return frozenset([*parts, *quantization.aside])


def packed_faults(checkpoint: Checkpoint) -> Iterator[Problem]:
    """Yield an error for every weight that was only to be reported.

    Raises:
        UnsupportedError: it is not known how the weights are quantised.
    """
    quantization = checkpoint.quantization
    if quantization is None or quantization.choice != "report":
        return
    if quantization.fault is not None:
        raise UnsupportedError(
            f"the weights are quantised ({quantization.label}), and cannot be read",
            where=Location(path=checkpoint.paths[0]),
            how="`--quantized dequantize` says why.",
        )
    for name, parts in quantization.weights.items():
        if name.startswith(_prefix(checkpoint)) and all(part in checkpoint.tensors for part in parts):
            yield Problem(name, f"quantised ({quantization.label})", _HOW, parts)


def set_aside(checkpoint: Checkpoint) -> Iterator[Skipped]:
    """Yield the stored tensors that belong to no parameter of the model of full precision."""
    if checkpoint.quantization is not None:
        yield from (
            Skipped(name, reason)
            for name, reason in checkpoint.quantization.aside.items()
            if name.startswith(_prefix(checkpoint))
        )


def with_stored_sources(checkpoint: Checkpoint, steps: Sequence[PlannedTensor]) -> tuple[PlannedTensor, ...]:
    """Return steps whose sources are the tensors in the files, instead of what was made of them after reading."""
    quantization, merged = checkpoint.quantization, checkpoint.merged
    weights = quantization.weights if quantization is not None and quantization.choice == "dequantize" else {}
    if not weights and not merged:
        return tuple(steps)

    def stored(source: str) -> Iterator[str]:
        for name in merged.get(source, (source,)):
            yield from weights.get(name, (name,))

    return tuple(
        replace(step, sources=tuple(part for source in step.sources for part in stored(source)))
        if any(source in weights or source in merged for source in step.sources)
        else step
        for step in steps
    )


def unpacked_note(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what the report says of quantised weights."""
    quantization = checkpoint.quantization
    if quantization is None or not quantization.weights:
        return
    count = len(quantization.weights)
    size = f"{quantization.stored_bytes:,} bytes, {quantization.expanded_bytes:,} as real values"
    made = {"dequantize": "dequantised", "integers": "written as codes and scales"}.get(
        quantization.choice, "only reported"
    )
    yield f"quantised: {quantization.label}; {count} {'tensor' if count == 1 else 'tensors'}, {size}; {made}"


def _prefix(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.root}." if checkpoint.root else ""
