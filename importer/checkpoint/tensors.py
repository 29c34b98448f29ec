"""Tensors from the calls torch has pickled them as, from 0.1 to today; nothing is called and no byte is read.

Not here: names and order (`walking`), whole modules (`saved_modules`), sparse and quantized tensors (`sparse_quantized`).

Format facts: `torch/_utils.py` (`_rebuild_*`), `torch/_tensor.py` (`Tensor.__reduce_ex__`, `__setstate__`,
`_rebuild_from_type*`), `torch/nn/parameter.py` and `torch/autograd/variable.py` of the releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from importer.arrays import Array, cast, strided
from importer.budgets import STEP, Budget
from importer.checkpoint.composites import is_wrapper, read_composite
from importer.checkpoint.embedded import embedded_storage, is_embedded
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.numpy_values import is_numpy, read_array
from importer.checkpoint.sparse_quantized import rebuild_quantized, rebuild_sparse
from importer.checkpoint.structures import is_mapping, items, pickled_bytes
from importer.containers.base import Resolver, StorageRecord
from importer.dtypes import DType, Kind, dtype_of_torch
from importer.errors import Location, TensorError, shown
from importer.options import DEFAULT_OPTIONS, Options
from importer.unpickling import Call, Global, PersistentId

__all__ = ["TensorReader"]

_HOW = "The file is damaged or was made to mislead; get it again from where it came."
_STATE_OF_TENSOR = 4  # storage, offset, size, stride: torch.Tensor before 0.1.10
_STATE_OF_VARIABLE = 5  # data, ...: torch.autograd.Variable before 0.4
_METADATA_V2 = 6  # position of the lazy bits among the arguments of _rebuild_tensor_v2
_DTYPE_V3 = 6  # position of the type among those of _rebuild_tensor_v3; the lazy bits follow
_LARGEST = (1 << 63) - 1  # torch counts elements in 64 bits
_NO_FLAGS: Mapping[object, object] = {}


class TensorReader:
    """Reads the tensors of one pickle-based container.

    Attributes:
        resolve: what a persistent id means.
        where: the container, for errors.
        big_endian: whether elements in the storages are big-endian.
        options: how sparse and quantized tensors are read.
        budget: what reading may cost, in the account of the whole source.
    """

    __slots__ = (
        "_bytes_by_text",
        "_embedded_by_call",
        "_numpy_by_call",
        "big_endian",
        "budget",
        "options",
        "resolve",
        "where",
    )

    def __init__(
        self,
        resolve: Resolver,
        where: Location,
        *,
        big_endian: bool = False,
        options: Options = DEFAULT_OPTIONS,
        budget: Budget | None = None,
    ) -> None:
        self.budget = Budget(options.limits) if budget is None else budget
        self._numpy_by_call: dict[Call, Array | NotDense] = {}
        self._bytes_by_text: dict[int, tuple[object, bytes]] = {}
        self.resolve = resolve
        self.where = where
        self.big_endian = big_endian
        self.options = options
        self._embedded_by_call: dict[Call, StorageRecord] = {}

    def read(self, call: Call) -> Dense | NotDense | Packed | None:
        """Return the tensor a call stands for, or None if it stands for something else.

        Raises:
            SourceError: the storage is missing or too short, or the arguments do not describe a tensor.
        """
        dtypes: list[DType] = []
        outermost = call
        while type(node := call.callable) is Global:
            key = (node.module, node.name)
            rebuild = _REBUILDS.get(key)
            if rebuild is not None:
                if call.state is not None:
                    # `Tensor.__setstate__` would give it another storage, or other numbers.
                    raise self.fault("it is given a state after it was made")
                found = rebuild(self, call.args)
                return found if call is outermost else _cast(found, dtypes)
            unwrap = _WRAPPERS.get(key) or (_unwrap_object if _is_tensor_class(node) else None)
            if unwrap is None:
                break
            self.budget.spend(STEP, self.where)
            if call.elements or call.entries or (call.state is not None and key in _STATELESS):
                raise self.fault("it is filled, or given a state, after it was made")
            inner = unwrap(self, call)
            if not isinstance(inner, _Inner):
                return inner
            call = inner.call
            if inner.dtype is not None:
                dtypes.append(inner.dtype)
        if isinstance(node, Global) and is_numpy(node) and call is not outermost:
            array = self.numpy_array(call)
            return _cast(array if isinstance(array, NotDense) else Dense(array, None), dtypes)
        if call is outermost and not (isinstance(node, Global) and node.module == "torch._utils"):
            return None
        return NotDense("unknown", f"rebuilt by {shown(node)}, which is not known here")

    def numpy_array(self, call: Call) -> Array | NotDense:
        """Return what a numpy call makes; the same array wherever it is used.

        Raises:
            TensorError: as `read_array`.
            LimitError: spelling the bytes out takes more than the budget has left.
        """
        if call not in self._numpy_by_call:
            if call.elements or call.entries:
                raise self.fault("the numpy array is filled after it was made")
            self._numpy_by_call[call] = read_array(call, self.where, self.bytes_of)
        return self._numpy_by_call[call]

    def bytes_of(self, data: object) -> bytes | None:
        """Return pickled bytes; those that are spelled as text once for all calls that share the text.

        Raises:
            LimitError: that takes more than the budget has left.
        """
        text = data.args[0] if isinstance(data, Call) and data.args else data
        if not isinstance(text, str | bytearray):
            return pickled_bytes(data)
        known = self._bytes_by_text.get(id(text))
        if known is None:
            self.budget.spend(2 * len(text), self.where)
            found = pickled_bytes(data)
            if found is None:
                return None
            known = self._bytes_by_text[id(text)] = (
                text,
                found,
            )  # the text is kept, so that its identity stays its own
        return known[1]

    def fault(self, what: str) -> TensorError:
        """Return the error for arguments that describe no tensor."""
        return TensorError(what, where=self.where, how=_HOW)

    def record(self, storage: object) -> StorageRecord | NotDense:
        """Return the storage that the first argument of a tensor means."""
        if type(storage) is PersistentId:
            record = self.resolve(storage)
            if isinstance(record, StorageRecord):
                return record
        elif isinstance(storage, Call):
            if is_embedded(storage):
                return self._embedded(storage)
            return NotDense("unknown", f"its storage is made by {shown(storage.callable)}, which is not known here")
        raise self.fault("its storage is none")

    def _embedded(self, storage: Call) -> StorageRecord:
        """Return a storage that is pickled within the pickle; one call is one storage, whatever its bytes are."""
        found = self._embedded_by_call.get(storage)
        if found is None:
            key = f"embedded {len(self._embedded_by_call)}"
            found = self._embedded_by_call[storage] = embedded_storage(storage, key, self.where, self.budget)
        return found

    def part(self, value: object) -> Array:
        """Return a dense tensor that another one is made of; sparse ones in sparse ones are not.

        Raises:
            TensorError: it is something else.
        """
        plain = TensorReader(self.resolve, self.where, big_endian=self.big_endian, budget=self.budget)
        found = plain.read(value) if isinstance(value, Call) else None
        if not isinstance(found, Dense):
            raise self.fault("a part of it is no dense tensor")
        return found.array

    def storage_dtype(self, storage: object) -> DType | None:
        """Return the element type a storage is declared with, None for an untyped one."""
        record = self.record(storage)
        return None if isinstance(record, NotDense) else record.dtype

    def view(
        self,
        args: tuple[object, ...],
        *,
        dtype: DType | None = None,
        flags: Mapping[object, object] = _NO_FLAGS,
    ) -> Dense | NotDense:
        """Return the view of a storage that `storage, offset, size, stride` describe.

        Args:
            args: begins with these four.
            dtype: element type where the storage does not say it.
            flags: `conj` and `neg`, torch's lazy bits.

        Raises:
            SourceError: the storage is missing or too short, or the four describe no tensor.
        """
        if len(args) < _STATE_OF_TENSOR:
            raise self.fault(f"it is described by {len(args)} values, not by storage, offset, size and stride")
        record = self.record(args[0])
        if isinstance(record, NotDense):
            return record
        offset, size, stride = args[1], self.integers(args[2]), self.integers(args[3])
        if type(offset) is not int or not 0 <= offset <= _LARGEST:
            raise self.fault(f"its offset is {shown(offset)}")
        element = dtype or record.dtype
        if element is None:
            raise self.fault("its storage has no type and it gives none")
        if element.kind is Kind.QUANTIZED:
            return NotDense("quantized", f"elements of type {element} without a scale")
        self.check_window(record, element, offset, size, stride)
        offset += record.offset
        identity = (self.where.path, record.key, offset, size, stride, element.name)
        if not flags:
            return Dense(strided(record.storage, element, size, stride, offset, big_endian=self.big_endian), identity)
        # torch sets a bit if its key is there, whatever the value says.
        conjugate, negative = "conj" in flags, "neg" in flags
        if not flags.keys() <= {"conj", "neg"} or not all(value is True for value in flags.values()):
            raise self.fault(f"its lazy bits are {shown(dict(flags))}, which torch does not write")
        array = strided(
            record.storage,
            element,
            size,
            stride,
            offset,
            big_endian=self.big_endian,
            conjugate=conjugate,
            negative=negative,
        )
        return Dense(array, (*identity, conjugate, negative) if conjugate or negative else identity)

    def check_window(
        self, record: StorageRecord, element: DType, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
    ) -> None:
        """Check that a tensor stays within what its id declares of a storage that holds more.

        Raises:
            TensorError: it does not.
        """
        nbytes = record.numel * (1 if record.dtype is None else record.dtype.itemsize)
        if nbytes == record.storage.nbytes or 0 in size:
            return
        end = offset + 1 + sum((number - 1) * step for number, step in zip(size, stride, strict=False))
        if end * element.itemsize > nbytes:
            raise self.fault(f"it needs {end * element.itemsize} bytes of a storage that is declared with {nbytes}")

    def integers(self, value: object) -> tuple[int, ...]:
        """Return a size or stride: a tuple or a `torch.Size` of integers.

        A list, which could change after the tensor was made, is none: torch writes tuples.
        """
        if type(value) is not tuple:
            if isinstance(value, Call) and value.callable == _SIZE and len(value.args) == 1 and not value.elements:
                value = value.args[0]
            if not isinstance(value, tuple):
                raise self.fault(f"{shown(value)} is no size or stride")
        if len(value) > self.options.limits.max_dimensions:
            raise self.fault(f"it has {len(value)} dimensions")
        for number in value:
            if type(number) is not int or not -_LARGEST <= number <= _LARGEST:
                raise self.fault(f"{shown(number)} is no number of elements")
        return value


class _Inner(NamedTuple):
    """A call wrapped in another one, and the type its elements are converted to on the way."""

    call: Call
    dtype: DType | None = None


_SIZE = Global("torch", "Size")


def _cast(found: Dense | NotDense | Packed, dtypes: list[DType]) -> Dense | NotDense | Packed:
    """Convert a tensor as its wrappers would, the innermost first."""
    if not isinstance(found, Dense) or not dtypes:
        return found
    array = found.array
    for dtype in reversed(dtypes):
        array = array if array.dtype is dtype else cast(array, dtype)
    return Dense(array, None if array is not found.array else found.identity)


def _dtype(value: object) -> DType | None:
    """Return the type that `torch.float32` or the like names."""
    return dtype_of_torch(value.name) if isinstance(value, Global) and value.module == "torch" else None


# Rebuild functions: from arguments to a tensor.


def _rebuild_tensor(reader: TensorReader, args: tuple[object, ...]) -> Dense | NotDense:
    return reader.view(args)


def _rebuild_tensor_v2(reader: TensorReader, args: tuple[object, ...]) -> Dense | NotDense:
    return (
        reader.view(args) if len(args) <= _METADATA_V2 else reader.view(args, flags=_flags(reader, args[_METADATA_V2]))
    )


def _rebuild_tensor_v3(reader: TensorReader, args: tuple[object, ...]) -> Dense | NotDense:
    if len(args) <= _DTYPE_V3:
        raise reader.fault("it is rebuilt without a type")
    dtype = _dtype(args[_DTYPE_V3])
    if dtype is None:
        return NotDense("unknown", f"its type {shown(args[_DTYPE_V3])} is not known here")
    flags = _flags(reader, args[_DTYPE_V3 + 1]) if len(args) > _DTYPE_V3 + 1 else _NO_FLAGS
    return reader.view(args, dtype=dtype, flags=flags)


def _flags(reader: TensorReader, metadata: object) -> Mapping[object, object]:
    """Return the lazy bits of a tensor: a dict, also one pickled as OrderedDict, or None."""
    if metadata is None:
        return _NO_FLAGS
    if not is_mapping(metadata):
        raise reader.fault(f"its lazy bits are {shown(metadata)}, which torch does not write")
    return dict(items(metadata))


def _rebuild_meta(_reader: TensorReader, args: tuple[object, ...]) -> NotDense:
    dtype, size = args[:2] if len(args) > 1 else (None, None)
    return NotDense(
        "meta", f"shape {shown(size)} and type {shown(dtype)}, but no data: it was saved from the meta device"
    )


def _rebuild_nested(_reader: TensorReader, _args: tuple[object, ...]) -> NotDense:
    return NotDense("nested", "rows of different lengths have no dense shape")


def _is_shard(args: tuple[object, ...]) -> bool:
    """Whether the class of a wrapper is one of torch's distributed tensors, of which a file holds one rank's part."""
    return len(args) > 1 and isinstance(args[1], Global) and args[1].name in {"DTensor", "ShardedTensor"}


def _rebuild_wrapper(_reader: TensorReader, args: tuple[object, ...]) -> NotDense:
    match args:
        case (Global(name="DTensor" | "ShardedTensor" as kind), _, size, *_):
            return NotDense(
                "dtensor" if kind == "DTensor" else "sharded",
                f"one rank's shard of a distributed tensor of shape {shown(size)}; gather the weights before saving them,"
                " with get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))",
            )
        case _:
            of = shown(args[0] if args else "unknown")
            return NotDense("wrapper", f"a tensor subclass without data of its own ({of})")


_Rebuild: TypeAlias = Callable[[TensorReader, tuple[object, ...]], Dense | NotDense | Packed]
_REBUILDS: dict[tuple[str, str], _Rebuild] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuild_meta,
    ("torch._utils", "_rebuild_qtensor"): rebuild_quantized,
    ("torch._utils", "_rebuild_sparse_tensor"): rebuild_sparse,
    ("torch._utils", "_rebuild_sparse_csr_tensor"): rebuild_sparse,
    ("torch._utils", "_rebuild_nested_tensor"): _rebuild_nested,
    ("torch._utils", "_rebuild_wrapper_subclass"): _rebuild_wrapper,
    ("torch.nested._internal.nested_tensor", "_rebuild_njt"): _rebuild_nested,
}


# Wrappers: from a call to the one inside it.


def _unwrap_parameter(reader: TensorReader, call: Call) -> _Inner:
    return _inner(reader, call.args[0] if call.args else None)


def _unwrap_device(reader: TensorReader, call: Call) -> _Inner | NotDense:
    """Unwrap a tensor of another device: numbers of the CPU, and the type to convert them to."""
    data, dtype = call.args[:2] if len(call.args) > 1 else (None, None)
    if _dtype(dtype) is None:
        return NotDense("unknown", f"its type {shown(dtype)} is not known here")
    return _inner(reader, data, _dtype(dtype))


def _unwrap_from_type(reader: TensorReader, call: Call) -> _Inner | Packed:
    """Unwrap a tensor subclass: function, class, arguments and attributes."""
    if call.args and is_wrapper(call.args[0]) and not _is_shard(call.args):
        packed = read_composite(reader.read, call, reader.budget)
        if packed is not None:
            return packed
    match call.args:
        case (Global() as function, _, tuple() as args, *_):
            return _Inner(Call(function, args))
        case _:
            raise reader.fault("the tensor subclass has arguments that torch does not write")


def _unwrap_object(reader: TensorReader, call: Call) -> _Inner | Dense | NotDense:
    """Read a tensor, variable or parameter object of the first releases, by its state or its arguments."""
    state = call.state if isinstance(call.state, tuple) else ()
    if len(state) == _STATE_OF_TENSOR and isinstance(state[0], PersistentId):
        return reader.view(state)
    if len(state) == _STATE_OF_VARIABLE and isinstance(state[0], Call):
        return _Inner(state[0])
    if len(call.args) == _STATE_OF_TENSOR and isinstance(call.args[0], PersistentId):
        return reader.view(call.args)
    if call.args and isinstance(call.args[0], Call):
        return _Inner(call.args[0])
    return NotDense("empty", f"an object of {shown(call.callable)} without data")


def _unwrap_new(_reader: TensorReader, call: Call) -> _Inner | None:
    """Read `copyreg.__newobj__(class, *arguments)`, which protocols 0 and 1 write for `class(*arguments)`."""
    match call.args:
        case (Global() as node, *args) if _is_tensor_class(node):
            inner = Call(node, tuple(args))
            inner.state = call.state
            return _Inner(inner)
        case _:
            return None


def _inner(reader: TensorReader, value: object, dtype: DType | None = None) -> _Inner:
    if not isinstance(value, Call):
        raise reader.fault(f"it wraps {shown(value)}, which is no tensor")
    return _Inner(value, dtype)


def _is_tensor_class(node: Global) -> bool:
    """Whether a global is one of torch's own classes of tensors."""
    if node.module in {"torch", "torch.cuda", "torch.tensor", "torch._tensor"}:
        return node.name.endswith("Tensor")
    return (node.module, node.name) in _TENSOR_CLASSES


_TENSOR_CLASSES = frozenset(
    {("torch.nn.parameter", name) for name in ("Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer")}
    | {("torch.autograd.variable", "Variable")}
)

_Unwrap: TypeAlias = Callable[[TensorReader, Call], "_Inner | Dense | NotDense | Packed | None"]
_WRAPPERS: dict[tuple[str, str], _Unwrap] = {
    ("torch._utils", "_rebuild_parameter"): _unwrap_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _unwrap_parameter,
    ("torch._utils", "_rebuild_device_tensor_from_numpy"): _unwrap_device,
    ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"): _unwrap_device,
    ("torch._utils", "_rebuild_xla_tensor"): _unwrap_device,
    ("torch._tensor", "_rebuild_from_type"): _unwrap_from_type,
    ("torch._tensor", "_rebuild_from_type_v2"): _unwrap_from_type,
    ("torch.tensor", "_rebuild_from_type"): _unwrap_from_type,
    ("copyreg", "__newobj__"): _unwrap_new,
    ("copy_reg", "__newobj__"): _unwrap_new,
}
_STATELESS = frozenset(key for key in _WRAPPERS if key[1] != "__newobj__")
"""Functions whose results torch gives no state."""
