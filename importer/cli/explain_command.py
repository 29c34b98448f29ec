"""`importer explain`: everything that happens to one tensor, from its bytes in the source to its bytes in the output.

Not here: the plan (`importer.conversion`), and how rules are told (`importer.recipes.explaining`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from importer.adapters import LAYERS
from importer.arrays.nodes import View
from importer.checkpoint import Tensor
from importer.cli.arguments import Arguments
from importer.conversion import PlannedConversion, plan_conversion
from importer.errors import UsageError, printable, shown
from importer.plan import PlannedTensor
from importer.recipes.explaining import explained_trail
from importer.storages import FileRange
from importer.writers import Destination, OutputFormat, OutputTensor, plan_layout

__all__ = ["run"]

_NEAREST = 3
_ALIKE = 0.8


def run(arguments: Arguments) -> int:
    """Print the way of every output tensor the name is part of, or why there is none, which ends with 1."""
    planned = plan_conversion(arguments.source, arguments.options)
    root = planned.checkpoint.root
    names = {arguments.name, f"{root}.{arguments.name}"} if root else {arguments.name}
    steps = [step for step in planned.plan.tensors if step.name in names or not names.isdisjoint(step.sources)]
    verdicts = list(_verdicts(planned, names))
    if not steps and not verdicts:
        raise _unknown(planned, arguments.name)
    print(printable(f"recipe  {planned.described or 'none: names and layouts as they are'}"))
    for line in (*_ways(planned, steps), *verdicts):
        print(printable(line))
    return 0 if steps else 1


def _ways(planned: PlannedConversion, steps: Iterable[PlannedTensor]) -> Iterator[str]:
    """Yield, for each output tensor, where its sources lie, each rule that touched it, and where it will lie."""
    tensors = [OutputTensor(step.name, step.array, step.param_id) for step in planned.plan.tensors]
    layout = plan_layout(tensors, Destination(path="out.bpk", format=OutputFormat.BURNPACK))
    offsets = {placed.tensor.name: placed.offset for _, file in layout.files for placed in file.placed}
    quantization = planned.checkpoint.quantization
    packed = {} if quantization is None else quantization.stored
    sources = {**packed, **planned.checkpoint.tensors, **planned.checkpoint.arrays}
    for step in steps:
        yield ""
        for source in step.sources:
            yield from _source(sources[source]) if source in sources else [source]
        # The first line of the trail, the sources' names, stands above already.
        yield from explained_trail(step.sources, step.trail, step.name)[1:]
        yield from _output(step, offsets[step.name])


def _source(tensor: Tensor) -> Iterator[str]:
    array = tensor.array
    owner = f"  of {tensor.module_type}" if tensor.module_type else ""
    yield f"{tensor.name}  {array.dtype.name} {list(array.shape)}{owner}"
    if not isinstance(array, View):
        yield "     computed from several runs of bytes"
        return
    storage = array.storage
    if isinstance(storage, FileRange):
        # Known only once a record's own header is read, which the offset does.
        start = f", bytes {storage.offset + array.offset * array.dtype.itemsize:,} and on"
    else:
        start = ""
    record = f"!{storage.where.record}" if storage.where.record else ""
    yield f"     {storage.where.path}{record}{start}, strides {list(array.strides)}"


def _output(step: PlannedTensor, offset: int) -> Iterator[str]:
    if step.layer is not None and step.layer in LAYERS:
        yield f"     {step.layer}: {LAYERS[step.layer].about}"
    array = step.array
    yield f"     {array.dtype.name} {list(array.shape)}, {array.nbytes:,} bytes at {offset:,} of a .bpk"


def _verdicts(planned: PlannedConversion, names: set[str]) -> Iterator[str]:
    """Yield why the names do not reach the output."""
    plan = planned.plan
    for skipped in plan.skipped:
        if skipped.name in names:
            yield f"{skipped.name} is left out: {skipped.rule}"
    for unused in plan.unused:
        if unused.name in names or not names.isdisjoint(unused.sources):
            yield f"{' + '.join(unused.sources)} becomes {unused.name} {list(unused.shape)}, unused: {unused.reason}"
    for fault in plan.errors:
        if fault.name in names or not names.isdisjoint(fault.sources):
            yield f"{fault.name}: {fault.message}. {fault.how}"
    for missing in plan.missing:
        if missing.name in names:
            near = [missing.suggestion] if missing.suggestion else _near(missing.name, planned)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            yield f"{missing.name} {list(missing.shape)} is missing: {plan.target} declares it, nothing becomes it{hint}"


def _unknown(planned: PlannedConversion, name: str) -> UsageError:
    near = _near(name, planned)
    how = f"Did you mean {' or '.join(map(shown, near))}?" if near else "`importer inspect` lists the names."
    return UsageError(f"neither the source nor the output has a tensor {shown(name)}", how=how)


def _near(name: str, planned: PlannedConversion) -> list[str]:
    known = dict.fromkeys([*planned.checkpoint.tensors, *(step.name for step in planned.plan.tensors)])
    return get_close_matches(name, known, n=_NEAREST, cutoff=_ALIKE)
