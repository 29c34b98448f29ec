"""burnpack files equal the worked examples of Burn's format byte for byte, and nothing goes in that Burn cannot read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.arrays import contiguous, from_bytes, full
from importer.dtypes import DTYPES, F32, I64, U8
from importer.errors import ImporterError, UnrepresentableError
from importer.writers import Destination, OutputFormat, OutputTensor, Scalar, burnpack_writer, write
from importer.writers.burnpack_writer import burnpack_layout
from tests.builders.outputs import WHERE, counting, patterned


def packed(
    folder: Path,
    tensors: Sequence[OutputTensor],
    metadata: Mapping[str, str] | None = None,
    scalars: Mapping[str, Scalar] | None = None,
) -> bytes:
    path = folder / "out.bpk"
    destination = Destination(
        path=str(path), format=OutputFormat.BURNPACK, metadata=metadata or {}, scalars=scalars or {}
    )
    assert write(tensors, destination).nbytes == path.stat().st_size
    return path.read_bytes()


def test_example_a_declared_order_and_sorted_map(tmp_path: Path) -> None:
    data = packed(
        tmp_path,
        [
            counting("fc.weight", (4, 3), 14101554053607715927),
            counting("fc.bias", (3,), 14755144371902836595),
            counting("head.weight", (3, 2), 3222552515581354512),
        ],
    )
    assert len(data) == 792
    assert sha256(data).hexdigest() == "efef349e99c189c4eb61fd4f410f1780275c09b30fa690f0843f0c695eeaac4c"


def test_example_b_booleans_numbers_and_a_tensor_without_elements_at_the_end(tmp_path: Path) -> None:
    data = packed(
        tmp_path,
        [
            OutputTensor("flag", from_bytes(b"\1\0", DTYPES["BOOL"], (2,), WHERE)),
            OutputTensor("scalar", full(-5, I64, ())),
            OutputTensor("empty", from_bytes(b"", F32, (0, 4), WHERE)),
        ],
        {"producer": "burn", "format": "burnpack"},
        {"step": 300, "lr": 0.5},
    )
    assert len(data) == 768
    assert sha256(data).hexdigest() == "8eeea33a4bf65e68f81b4537b3223c327bf666514689323a6285a44ee4dff052"


def test_example_c_no_tensors(tmp_path: Path) -> None:
    data = packed(tmp_path, [])
    assert data == bytes.fromhex("4e52554201000a000000a16774656e736f7273a0") + bytes(236)
    assert sha256(data).hexdigest() == "d51cafc1a9901c1d26d289a9e29457bb4bb041f704ee783577e890d516927813"


def test_example_d_one_tensor(tmp_path: Path) -> None:
    values = from_bytes(bytes.fromhex("0000803f000000400000404000008040"), F32, (2, 2), WHERE)
    data = packed(tmp_path, [OutputTensor("weight", values, 42)])
    assert sha256(data).hexdigest() == "cd9cf522ffd28e20ceda1cac410bcd11168c934689eabe0b6fb546cd7104bf68"


def test_example_e_a_tensor_without_elements_shares_its_offset_with_the_next(tmp_path: Path) -> None:
    data = packed(tmp_path, [counting("e", (0,)), counting("w", (1,))])
    described = cbor2.loads(data[10:])["tensors"]
    assert (described["e"]["data_offsets"], described["w"]["data_offsets"]) == ([0, 0], [0, 4])
    assert len(data) == 260


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.burnpack])
def test_every_type_burn_has_is_written_under_its_name(name: str, tmp_path: Path) -> None:
    tensor = patterned("t", name, (2, 3))
    data = packed(tmp_path, [tensor])
    described = cbor2.loads(data[10:])["tensors"]["t"]
    assert described["dtype"] == ({"Bool": "Native"} if name == "BOOL" else name)
    assert described["shape"] == [2, 3]
    assert data[256:] == b"".join(packed_bytes(tensor))


def packed_bytes(tensor: OutputTensor) -> list[bytes]:
    from importer.arrays import blocks

    return [bytes(block) for block in blocks(tensor.array)]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), unique=True, max_size=8))
def test_the_map_is_sorted_by_utf8_bytes_and_the_data_is_not(names: list[str]) -> None:
    layout = burnpack_layout([counting(name, (index % 3,)) for index, name in enumerate(names)], {}, {})
    assert [placed.tensor.name for placed in layout.placed] == names
    assert list(cbor2.loads(layout.header[10:])["tensors"]) == sorted(names, key=str.encode)
    assert all(placed.offset % 256 == 0 for placed in layout.placed)


def refusal(tensors: Sequence[OutputTensor], scalars: Mapping[str, Scalar] | None = None) -> ImporterError:
    with pytest.raises(UnrepresentableError) as caught:
        burnpack_layout(tensors, {}, scalars or {})
    assert caught.value.exit_code == 4
    return caught.value


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if not dtype.burnpack])
def test_types_burn_lacks_are_refused_by_name(name: str) -> None:
    assert f"'t', which is {name}" in refusal([patterned("t", name, (1,))]).what


def test_only_floats_are_advised_to_be_cast() -> None:
    assert "--dtype" in refusal([patterned("t", "F8_E4M3", (1,))]).how
    assert "--dtype" not in refusal([patterned("t", "C64", (1,))]).how


class _Huge:
    nbytes = 1 << 50
    where = WHERE

    def read_into(self, offset: int, buffer: memoryview) -> None:
        raise AssertionError(f"{len(buffer)} bytes at {offset} were read")


def huge(name: str, nbytes: int) -> OutputTensor:
    return OutputTensor(name, contiguous(_Huge(), U8, (nbytes,)))


def test_a_tensor_of_10_gib_is_written_and_one_byte_more_is_refused() -> None:
    assert burnpack_layout([huge("a", 10 << 30)], {}, {}).nbytes == 256 + (10 << 30)
    assert "10 GiB" in refusal([huge("a", (10 << 30) + 1)]).what


def test_a_file_of_more_than_100_gib_is_refused() -> None:
    assert "100 GiB" in refusal([huge(f"{index}", 10 << 30) for index in range(10)]).what


def test_more_tensors_than_burn_reads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burnpack_writer, "MAX_TENSORS", 3)
    assert len(burnpack_layout([counting(f"{index}", ()) for index in range(3)], {}, {}).placed) == 3
    assert "4 tensors" in refusal([counting(f"{index}", ()) for index in range(4)]).what


def test_more_metadata_than_burn_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burnpack_writer, "MAX_METADATA_BYTES", 60)
    assert "metadata" in refusal([counting("a" * 50, ())]).what


@pytest.mark.parametrize("param_id", [-1, 1 << 64])
def test_parameter_ids_are_64_bit(param_id: int) -> None:
    assert "not an unsigned 64-bit number" in refusal([counting("a", (), param_id)]).what


@pytest.mark.parametrize("number", [-(1 << 63) - 1, 1 << 64])
def test_scalars_are_64_bit(number: int) -> None:
    assert "64 bits" in refusal([], {"step": number}).what


@pytest.mark.parametrize("number", [0, -1, (1 << 64) - 1, -(1 << 63), True, False, 0.1, math.inf, -0.0])
def test_scalars_keep_type_and_value(number: Scalar) -> None:
    ((kind, value),) = cbor2.loads(burnpack_layout([], {}, {"s": number}).header[10:])["scalars"]["s"].items()
    assert kind == {bool: "Bool", float: "Float", int: "UInt" if number >= 0 else "Int"}[type(number)]
    assert (value, math.copysign(1, value)) == (number, math.copysign(1, number))


def test_one_name_twice_is_refused() -> None:
    assert "two tensors are called 'a'" in refusal([counting("a", ()), counting("a", (2,))]).what


def test_half_a_surrogate_pair_is_refused_escaped() -> None:
    assert r"'a\ud800' is not valid Unicode" in refusal([counting("a\ud800", ())]).what
