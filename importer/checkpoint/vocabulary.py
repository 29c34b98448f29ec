"""Which globals of a pickle mean something here: torch's tensor format, plain containers, numpy's constructors.

Not here: how tensors are read from calls (`tensors`, `numpy_values`), and what any other call would do (`conduct`).
"""

from __future__ import annotations

from importer.dtypes import dtype_of_storage_class, dtype_of_torch
from importer.unpickling import Call, Global

__all__ = ["MAPPINGS", "NUMPY_MODULES", "SEQUENCES", "is_format", "qualified_name"]

_BUILTINS = ("builtins", "__builtin__")
_COPYREG = ("copyreg", "copy_reg")
NUMPY_MODULES = ("numpy.core", "numpy._core")
"""Where numpy 1 and numpy 2 keep what rebuilds arrays."""

MAPPINGS = frozenset(
    {("collections", "OrderedDict"), ("collections", "defaultdict"), ("collections", "Counter")}
    | {(module, "dict") for module in _BUILTINS}
)
"""Calls that make mappings: from nothing, from a mapping or from pairs; a default factory is never called."""

SEQUENCES = frozenset(
    {("collections", "deque"), ("torch", "Size")}
    | {(module, name) for module in _BUILTINS for name in ("list", "tuple", "set", "frozenset")}
    | {("torch.jit._pickle", f"build_{kind}list") for kind in ("tensor", "int", "double", "bool")}
    # Pickled by TorchScript around containers, with their type as text behind them.
    | {("torch.jit._pickle", "restore_type_tag")}
)
"""Calls that make sequences of their first argument, as far as names are concerned."""

_PLAIN_BUILTINS = frozenset(
    {
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "long", "object",
        "range", "set", "slice", "str", "tuple", "unicode",
    }
)  # fmt: skip
_TORCH_NAMES = frozenset(
    {
        "Size", "device", "Tensor", "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr",
        "sparse_bsc", "_mkldnn", "jagged", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric",
        "per_channel_symmetric", "per_channel_affine_float_qparams", "contiguous_format", "preserve_format",
        "channels_last", "channels_last_3d",
    }
)  # fmt: skip
_TORCH_MODULES = frozenset(
    {
        "torch._utils", "torch._tensor", "torch.tensor", "torch.storage", "torch.nn.parameter",
        "torch.autograd.variable", "torch.jit._pickle",
    }
)  # fmt: skip
_OTHER_FORMAT = frozenset(
    {("torch.serialization", "_get_layout"), ("collections", "OrderedDict"), ("_codecs", "encode")}
    | {("numpy", name) for name in ("dtype", "ndarray")}
    | {(f"{package}.multiarray", name) for package in NUMPY_MODULES for name in ("_reconstruct", "scalar")}
    | {(f"{package}.numeric", "_frombuffer") for package in NUMPY_MODULES}
    | {(module, name) for module in _COPYREG for name in ("_reconstructor", "__newobj__", "__newobj_ex__")}
)


def is_format(node: Global) -> bool:
    """Whether a global belongs to torch's tensor format, numpy's constructors or the plain builtins."""
    module, name = node.module, node.name
    if module in _BUILTINS:
        return name in _PLAIN_BUILTINS
    if module == "torch":
        return _is_torch_name(name)
    if module == "torch.cuda":
        return dtype_of_storage_class(name) is not None or name.endswith("Tensor")
    return module in _TORCH_MODULES or (module, name) in _OTHER_FORMAT or module.split(".")[0] == "__torch__"


def _is_torch_name(name: str) -> bool:
    """Whether `torch.<name>` is a type of elements, storages, tensors, or one of their properties."""
    if name in _TORCH_NAMES or name.endswith("Tensor"):
        return True
    return dtype_of_torch(name) is not None or dtype_of_storage_class(name) is not None or name == "UntypedStorage"


def qualified_name(callee: object) -> Global | None:
    """Return the class or function a callee names: itself, or what a call looks up by name.

    Followed are `getattr(class, name)`, by which nested classes are pickled, and the look-ups of dill and cloudpickle: types by
    their name, modules and their attributes. None where it is named by nothing but a computation.
    """
    attributes: list[str] = []
    while isinstance(callee, Call):
        match callee.callable, callee.args:
            case Global(module=module, name="getattr"), (owner, str() as attribute, *_) if module in _BUILTINS:
                attributes.append(attribute)
                callee = owner
            case Global(module="dill._dill" | "dill.dill", name="_get_attr"), (owner, str() as attribute, *_):
                attributes.append(attribute)
                callee = owner
            case Global(name=look_up), (str() as name, *_) if look_up in _TYPE_LOOKUPS:
                callee = Global("builtins" if name in _PLAIN_BUILTINS else "types", name)
            case Global(name=look_up), (str() as name, *_) if look_up in _MODULE_LOOKUPS and attributes:
                callee = Global(name, attributes.pop())
            case _:
                return None
    if not isinstance(callee, Global):
        return None
    return Global(callee.module, ".".join([callee.name, *reversed(attributes)])) if attributes else callee


_TYPE_LOOKUPS = frozenset({"_builtin_type", "_load_type"})
_MODULE_LOOKUPS = frozenset({"_import_module", "subimport"})
