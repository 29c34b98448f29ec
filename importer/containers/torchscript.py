"""The code records of TorchScript archives: which attributes of a module class are parameters and which buffers.

The pickle of such an archive lists all attributes of a module alike. Its generated source says more, one class like this:

    class Net(Module):
      __parameters__ = ["weight", ]
      __buffers__ = ["mask", ]                  since torch 1.6
      weight : Tensor
      __annotations__["0"] = __torch__.torch.nn.modules.linear.Linear
      def forward(self: ...

Nothing is run: lines are matched, names in brackets are read as literals. Not here: the archive layout (`torch_zip`), the
archives before torch 1.3 (`torchscript_json`).

Format facts: torch/csrc/jit/serialization/python_print.cpp, and archives of torch 1.3 to 2.13.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from importer.containers.base import ScriptClass
from importer.containers.zip_archive import ZipArchive
from importer.errors import CorruptContainerError, Location, shown
from importer.unpickling import Global

__all__ = ["parse_classes", "read_script_classes"]

_CLASS = re.compile(r"class (\w+)\(Module\):$")
_NAMES = re.compile(r"  (__parameters__|__buffers__) = (\[.*\])$")
_TRAILING_COMMA = re.compile(r",\s*\]$")
_ATTRIBUTE = re.compile(r'  (?:(\w+) : |__annotations__\[("(?:[^"\\]|\\.)*")\] = )(.+)$')


def read_script_classes(archive: ZipArchive, root: str, named: Iterable[Global]) -> Mapping[str, ScriptClass]:
    """Return the module classes among those the pickle names, by `module.name`; only their code records are read.

    Raises:
        CorruptContainerError: a code record is damaged.
    """
    classes: dict[str, ScriptClass] = {}
    modules = {item.module for item in named if item.module.split(".")[0] == "__torch__"}
    for module in sorted(modules):
        record = f"{root}code/{module.replace('.', '/')}.py"
        if record in archive.entries:
            source = archive.read(record, "max_text_record_bytes")
            where = Location(path=archive.file.path, record=record)
            classes.update((found.name, found) for found in parse_classes(source, module, where))
    return classes


def parse_classes(source: bytes, module: str, where: Location) -> Iterator[ScriptClass]:
    """Yield the module classes of one code record.

    Raises:
        CorruptContainerError: what should be a name or a list of names is none.
    """
    lines = source.decode("utf-8", "replace").splitlines()
    starts = [index for index, line in enumerate(lines) if line and not line.startswith(" ")]
    for start, end in pairwise([*starts, len(lines)]):
        head = _CLASS.match(lines[start])
        if head:
            yield _parse_class(f"{module}.{head[1]}", lines[start + 1 : end], where)


def _parse_class(name: str, body: list[str], where: Location) -> ScriptClass:
    lists: dict[str, frozenset[str]] = {}
    attributes: dict[str, str] = {}
    for line in body:
        if names := _NAMES.match(line):
            lists[names[1]] = _literal_names(names[2], where)
        elif attribute := _ATTRIBUTE.match(line):
            key = attribute[1] or str(_literal(attribute[2], where))
            attributes[key] = attribute[3]
    return ScriptClass(name, lists.get("__parameters__", frozenset()), lists.get("__buffers__"), attributes)


def _literal_names(text: str, where: Location) -> frozenset[str]:
    names = _literal(text, where)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged(text, where)
    return frozenset(names)


def _literal(text: str, where: Location) -> object:
    try:
        value: object = json.loads(_TRAILING_COMMA.sub("]", text))
    except (ValueError, RecursionError) as error:
        raise _damaged(text, where) from error
    return value


def _damaged(text: str, where: Location) -> CorruptContainerError:
    return CorruptContainerError(
        f"{shown(text)} is no list of attribute names", where=where, how="Download or copy the file again."
    )
