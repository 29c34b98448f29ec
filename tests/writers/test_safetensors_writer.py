"""safetensors files equal those of the reference library, and it reads them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import TensorSpec, deserialize, safe_open, serialize

from importer.arrays import blocks
from importer.dtypes import DTYPES
from importer.errors import UnrepresentableError
from importer.writers import Destination, OutputFormat, OutputTensor, safetensors_writer, write
from importer.writers.safetensors_writer import safetensors_layout
from tests.builders.outputs import counting, patterned

# The library's own spelling of types in `serialize`; it takes no others.
LIBRARY = {
    name: dtype.torch_name
    for name, dtype in DTYPES.items()
    if dtype.safetensors and name not in {"F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
}
REPRESENTABLE = [name for name, dtype in DTYPES.items() if dtype.safetensors]


def content(tensor: OutputTensor) -> bytes:
    return b"".join(map(bytes, blocks(tensor.array)))


def read_back(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    tensors: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]
    return tensors


def saved(folder: Path, tensors: list[OutputTensor], **metadata: str) -> bytes:
    path = folder / "out.safetensors"
    write(tensors, Destination(path=str(path), format=OutputFormat.SAFETENSORS, metadata=metadata, overwrite=True))
    return path.read_bytes()


def reference(tensors: list[OutputTensor], metadata: dict[str, str] | None) -> bytes:
    """Return the library's file; it takes addresses, so the bytes are kept alive until it is done."""
    held = {tensor.name: np.frombuffer(content(tensor) or bytes(1), np.uint8) for tensor in tensors}
    described = {
        tensor.name: TensorSpec(
            dtype=LIBRARY[tensor.array.dtype.name],
            shape=list(tensor.array.shape),
            data_ptr=held[tensor.name].ctypes.data,
            data_len=tensor.array.nbytes,
        )
        for tensor in tensors
    }
    return bytes(serialize(described, metadata))


@pytest.mark.parametrize("name", sorted(LIBRARY))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 5)], ids=str)
def test_one_tensor_of_every_type_gives_the_librarys_file(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    tensors = [patterned("a.weight", name, shape)]
    assert saved(tmp_path, tensors, format="pt") == reference(tensors, {"format": "pt"})


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6), st.sampled_from(sorted(LIBRARY)), max_size=8
    )
)  # fmt: skip
def test_several_tensors_lie_in_the_librarys_order(types: dict[str, str]) -> None:
    tensors = [patterned(name, dtype, (len(name),)) for name, dtype in types.items()]
    layout = safetensors_layout(tensors, {})
    assert layout.header == reference(tensors, None)[: len(layout.header)]


@pytest.mark.parametrize("name", REPRESENTABLE)
def test_the_library_reads_every_type_back(name: str, tmp_path: Path) -> None:
    tensor = patterned("t", name, (2, 3))
    ((key, read),) = read_back(saved(tmp_path, [tensor]))
    assert (key, read["dtype"], read["shape"]) == ("t", name, [2, 3])
    assert bytes(read["data"]) == content(tensor)


def test_the_library_opens_the_file_lazily(tmp_path: Path) -> None:
    saved(tmp_path, [counting("b", (2, 2)), counting("a", (3,))], made="here")
    with safe_open(tmp_path / "out.safetensors", framework="np") as opened:
        assert set(opened.keys()) == {"a", "b"}
        assert opened.metadata() == {"made": "here"}
        np.testing.assert_array_equal(opened.get_tensor("b"), [[0, 1], [2, 3]])


def test_metadata_is_sorted_and_comes_first(tmp_path: Path) -> None:
    data = saved(tmp_path, [counting("a", ())], zebra="1", ant="2")
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert list(header) == ["__metadata__", "a"]
    assert list(header["__metadata__"]) == ["ant", "zebra"]


def test_a_file_without_tensors_is_readable(tmp_path: Path) -> None:
    assert read_back(saved(tmp_path, [])) == []


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in REPRESENTABLE])
def test_types_the_format_lacks_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnrepresentableError, match=f"'t', which is {name}"):
        safetensors_layout([patterned("t", name, (1,))], {})


def test_the_reserved_name_is_refused() -> None:
    with pytest.raises(UnrepresentableError, match="__metadata__"):
        safetensors_layout([counting("__metadata__", ())], {})


def test_a_header_larger_than_the_library_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_writer, "_MAX_HEADER_BYTES", 64)
    with pytest.raises(UnrepresentableError, match="header"):
        safetensors_layout([counting("a" * 60, ())], {})
