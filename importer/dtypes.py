"""One table of element types: item size, and how torch, numpy, safetensors and burnpack spell each.

Names are safetensors' (`F32`, `BF16`, `I64`, `BOOL`, `F8_E4M3`, `C64`); types that safetensors lacks get a name in the
same style. Not here: values and arithmetic, and numpy itself - listing a file must not import it, so numpy types are
strings until somebody reads (`DType.numpy`).

Sources: torch/csrc/... `ScalarType` names; safetensors `Dtype`; burn-tensor `DType` (burn-spec 1.3 and 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BF16",
    "BOOL",
    "C64",
    "C128",
    "DTYPES",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "U16",
    "U32",
    "U64",
    "DType",
    "Kind",
    "dtype_of_numpy",
    "dtype_of_storage_class",
    "dtype_of_torch",
]


class Kind(str, Enum):
    """What an element is; casts of floats and the readers of bits both ask this."""

    FLOAT = "float"
    INTEGER = "integer"
    BOOL = "bool"
    COMPLEX = "complex"
    QUANTIZED = "quantized"
    BITS = "bits"


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. There is one object for each, so they are compared and hashed by identity.

    Attributes:
        name: spelling used everywhere in this package, safetensors' own where it has one.
        itemsize: bytes per stored element.
        kind: what the element is.
        numpy_name: little-endian numpy type string, or the name of an `ml_dtypes` type, or `V1`-like raw bytes.
        torch_names: attribute names below `torch`, the canonical one first.
        storage_class: prefix of `torch.XStorage`, or None where torch never had a typed storage.
        burnpack: variant name in burnpack metadata, or None where Burn has no such type.
        safetensors: whether the safetensors format has this type under `name`.
    """

    name: str
    itemsize: int
    kind: Kind
    numpy_name: str
    torch_names: tuple[str, ...] = ()
    storage_class: str | None = None
    burnpack: str | None = None
    safetensors: bool = True

    @property
    def is_float(self) -> bool:
        """Whether `--dtype` casts this type."""
        return self.kind is Kind.FLOAT

    @property
    def torch_name(self) -> str:
        """Canonical torch spelling without the `torch.` (or the own name where torch has none)."""
        return self.torch_names[0] if self.torch_names else self.name

    def numpy(self) -> np.dtype[np.generic]:
        """Return the little-endian numpy type; imports numpy (and ml_dtypes for bf16 and the 8-bit floats)."""
        import numpy as np

        if self.numpy_name[0] in "<|":
            return np.dtype(self.numpy_name)
        import ml_dtypes

        extended: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, self.numpy_name))
        return extended

    def __str__(self) -> str:
        return self.name


_F, _I, _C, _Q, _B = Kind.FLOAT, Kind.INTEGER, Kind.COMPLEX, Kind.QUANTIZED, Kind.BITS

F64 = DType("F64", 8, _F, "<f8", ("float64", "double"), "Double", "F64")
F32 = DType("F32", 4, _F, "<f4", ("float32", "float"), "Float", "F32")
F16 = DType("F16", 2, _F, "<f2", ("float16", "half"), "Half", "F16")
BF16 = DType("BF16", 2, _F, "bfloat16", ("bfloat16",), "BFloat16", "BF16")
I64 = DType("I64", 8, _I, "<i8", ("int64", "long"), "Long", "I64")
I32 = DType("I32", 4, _I, "<i4", ("int32", "int"), "Int", "I32")
I16 = DType("I16", 2, _I, "<i2", ("int16", "short"), "Short", "I16")
I8 = DType("I8", 1, _I, "|i1", ("int8",), "Char", "I8")
U64 = DType("U64", 8, _I, "<u8", ("uint64",), None, "U64")
U32 = DType("U32", 4, _I, "<u4", ("uint32",), None, "U32")
U16 = DType("U16", 2, _I, "<u2", ("uint16",), None, "U16")
U8 = DType("U8", 1, _I, "|u1", ("uint8",), "Byte", "U8")
BOOL = DType("BOOL", 1, Kind.BOOL, "|b1", ("bool",), "Bool", "Bool")
C64 = DType("C64", 8, _C, "<c8", ("complex64", "cfloat"), "ComplexFloat")
C128 = DType("C128", 16, _C, "<c16", ("complex128", "cdouble"), "ComplexDouble", safetensors=False)

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        *(F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, C64, C128),
        DType("C32", 4, _C, "complex32", ("complex32", "chalf"), "ComplexHalf", safetensors=False),
        DType("F8_E4M3", 1, _F, "float8_e4m3fn", ("float8_e4m3fn",)),
        DType("F8_E5M2", 1, _F, "float8_e5m2", ("float8_e5m2",)),
        DType("F8_E8M0", 1, _F, "float8_e8m0fnu", ("float8_e8m0fnu",)),
        DType("F8_E4M3FNUZ", 1, _F, "float8_e4m3fnuz", ("float8_e4m3fnuz",)),
        DType("F8_E5M2FNUZ", 1, _F, "float8_e5m2fnuz", ("float8_e5m2fnuz",)),
        # Two 4-bit floats in a byte: torch counts bytes as elements, safetensors counts nibbles; kept as bytes here.
        DType("F4_X2", 1, _B, "|u1", ("float4_e2m1fn_x2",), safetensors=False),
        DType("QI8", 1, _Q, "|i1", ("qint8",), "QInt8", safetensors=False),
        DType("QU8", 1, _Q, "|u1", ("quint8",), "QUInt8", safetensors=False),
        DType("QI32", 4, _Q, "<i4", ("qint32",), "QInt32", safetensors=False),
        DType("QU4X2", 1, _Q, "|u1", ("quint4x2",), "QUInt4x2", safetensors=False),
        DType("QU2X4", 1, _Q, "|u1", ("quint2x4",), "QUInt2x4", safetensors=False),
        DType("B8", 1, _B, "|u1", ("bits8",), safetensors=False),
        DType("B16", 2, _B, "<u2", ("bits16",), safetensors=False),
        DType("B1X8", 1, _B, "|u1", ("bits1x8",), safetensors=False),
        DType("B2X4", 1, _B, "|u1", ("bits2x4",), safetensors=False),
        DType("B4X2", 1, _B, "|u1", ("bits4x2",), safetensors=False),
        *(DType(f"U{n}", 1, _B, "|u1", (f"uint{n}",), safetensors=False) for n in range(1, 8)),
        *(DType(f"I{n}", 1, _B, "|i1", (f"int{n}",), safetensors=False) for n in range(1, 8)),
    )
}
"""Every type by its name."""

_BY_TORCH = {torch_name: dtype for dtype in DTYPES.values() for torch_name in dtype.torch_names}
_BY_STORAGE = {f"{dtype.storage_class}Storage": dtype for dtype in DTYPES.values() if dtype.storage_class}
_BY_NUMPY = {dtype.numpy_name: dtype for dtype in reversed(DTYPES.values()) if dtype.kind not in (_Q, _B)}


def dtype_of_torch(name: str) -> DType | None:
    """Return the type that torch calls `name` (`float32`, `torch.float32` or `float`), or None."""
    return _BY_TORCH.get(name.removeprefix("torch."))


def dtype_of_storage_class(name: str) -> DType | None:
    """Return the element type of a typed storage class (`FloatStorage`), or None; `UntypedStorage` has none."""
    return _BY_STORAGE.get(name)


def dtype_of_numpy(name: str) -> DType | None:
    """Return the type for a numpy type string in little-endian form (`<f4`, `|b1`), or None."""
    return _BY_NUMPY.get(name)
