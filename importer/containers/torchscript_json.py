"""TorchScript archives before torch 1.3: `model.json` describes the modules, `tensors/<n>` holds the storages.

The JSON text is a protocol buffer message in its JSON spelling: names in camel case, 64-bit numbers as text, fields that
are 0 or empty left out. It says itself which tensors are parameters and, in torch 1.0, which are buffers. Since torch 1.1
a buffer is an attribute of type Tensor, and the values of all attributes are one pickled tuple, `attributes.pkl`, in which
`build_tensor_from_id(n)` stands for the n-th tensor of the description. Not here: the later archives (`torchscript`).

Format facts: caffe2/proto/torch.proto and torch/csrc/jit/serialization/import_legacy.cpp; the type numbers are those of
caffe2.proto's `TensorProto.DataType`; archives of torch 1.0, 1.1 and 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from importer.arrays import Array, strided
from importer.budgets import TENSOR
from importer.containers.base import TableContainer
from importer.containers.files import parse_json_object
from importer.containers.json_fields import JsonFields, Message
from importer.containers.zip_archive import ZipArchive
from importer.dtypes import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, DType
from importer.errors import Location, MissingFileError, UnsupportedError, shown
from importer.limits import Limits
from importer.unpickling import Call, Global, unpickle

__all__ = ["read_json_archive"]

_TYPES: Mapping[str, DType] = {
    "FLOAT": F32, "INT32": I32, "BYTE": U8, "BOOL": BOOL, "UINT8": U8, "INT8": I8, "UINT16": U16, "INT16": I16,
    "INT64": I64, "FLOAT16": F16, "DOUBLE": F64,
}  # fmt: skip
_TENSOR_BY_NUMBER = Global("torch.jit._pickle", "build_tensor_from_id")


def read_json_archive(archive: ZipArchive, root: str, limits: Limits) -> TableContainer:
    """Return the parameters and buffers under the names `state_dict()` gives: own parameters, own buffers, children.

    Raises:
        CorruptContainerError, MalformedPickleError: the description does not hold together.
        MissingFileError: a storage is not in the archive.
        UnsupportedError: a quantized tensor, or a type without counterpart.
        TensorError: a tensor reaches outside of its storage.
        LimitError: modules nested deeper than `max_nesting`.
    """
    record = f"{root}model.json"
    where = Location(path=archive.file.path, record=record)
    text = archive.read(record, "max_text_record_bytes")
    model = parse_json_object(text, where, archive.file.budget, max_depth=2 * limits.max_nesting)
    table = _JsonArchiveReader(archive, root, where, limits, _attribute_values(archive, root, limits))
    tensors = table.messages(model, "tensors")
    named: dict[str, Array] = {}
    for name, index in table.parameters(table.message(model, "mainModule")):
        if not 0 <= index < len(tensors) or name in named:
            raise table.corrupt(f"the tensor {shown(name)} is missing or there twice")
        archive.file.budget.spend(TENSOR + len(name), where)
        named[name] = table.array(tensors[index])
    return TableContainer(kind="torchscript", paths=(archive.file.path,), arrays=named)


def _attribute_values(archive: ZipArchive, root: str, limits: Limits) -> Sequence[object]:
    """Return the values that attributes name by number; there are none in torch 1.0."""
    record = f"{root}attributes.pkl"
    if record not in archive.entries:
        return ()
    where = Location(path=archive.file.path, record=record)
    value = unpickle(
        archive.read(record, "max_pickle_bytes"), where=where, limits=limits, budget=archive.file.budget
    ).value
    return value if isinstance(value, tuple | list) else ()


class _JsonArchiveReader(JsonFields):
    """The description, and the records it points to."""

    __slots__ = ("_archive", "_limits", "_root", "_values")

    def __init__(
        self, archive: ZipArchive, root: str, where: Location, limits: Limits, values: Sequence[object]
    ) -> None:
        super().__init__(where)
        self._values = values
        self._archive = archive
        self._root = root
        self._limits = limits

    def parameters(self, module: Message) -> Iterator[tuple[str, int]]:
        """Yield full name and tensor number of every parameter and buffer, without recursion."""
        pending: list[tuple[str, int, Message]] = [("", 0, module)]
        while pending:
            prefix, depth, module = pending.pop()
            self._limits.require(
                "max_nesting", depth, "modules are nested too deeply", self.where, "Do not trust this file."
            )
            own = sorted(self.messages(module, "parameters"), key=lambda entry: bool(entry.get("isBuffer")))
            for entry in own:
                yield prefix + self.text(entry, "name"), self.number(entry, "tensorId")
            buffers = {self.text(entry, "name") for entry in own}
            for name, index in self.tensor_attributes(module):
                if name not in buffers:
                    yield prefix + name, index
            children = self.messages(module, "submodules")[::-1]
            self._archive.file.budget.spend(len(prefix) * (1 + len(own) + len(children)), self.where)
            pending += [(f"{prefix}{self.text(child, 'name')}.", depth + 1, child) for child in children]

    def tensor_attributes(self, module: Message) -> Iterator[tuple[str, int]]:
        """Yield name and tensor number of the attributes that are tensors, as `state_dict()` has them for buffers.

        A negative number says that the value is set by the module's own code, from a state that no name belongs to.
        """
        for entry in self.messages(module, "attributes"):
            number = self.number(entry, "id")
            if self.text(entry, "type") != "Tensor" or number < 0:
                continue
            name = self.text(entry, "name")
            match self._values[number] if number < len(self._values) else None:
                case Call(callable=callee, args=(int() as index,)) if callee == _TENSOR_BY_NUMBER:
                    yield name, index
                case _:
                    raise self.corrupt(f"the attribute {shown(name)} has no value")

    def array(self, tensor: Message) -> Array:
        """Return one tensor of the table as a view of its record."""
        kind = tensor.get("dataType")
        dtype = _TYPES.get(str(kind))
        if dtype is None or tensor.get("isQuantized"):
            raise UnsupportedError(
                f"a tensor of type {shown(kind)} cannot be read",
                where=self.where,
                how="Save it again as plain floats.",
            )
        record = self._root + self.text(self.message(tensor, "data"), "key")
        if record not in self._archive.entries:
            raise MissingFileError(
                f"record {shown(record)} does not exist in the archive",
                where=self.where,
                how="The file is incomplete: download or copy it again.",
            )
        storage = self._archive.storage(record)
        shape, strides = self.numbers(tensor, "dims"), self.numbers(tensor, "strides")
        return strided(storage, dtype, shape, strides, self.number(tensor, "offset"))
