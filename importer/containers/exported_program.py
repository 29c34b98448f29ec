"""Exported programs (`torch.export.save`, `.pt2`): the weights of an archive that also holds a graph.

    <root>/archive_format                              "pt2"
    <root>/data/weights/<model>_weights_config.json    name to record and tensor description
    <root>/data/weights/weight_<n>                     elements

Constants of the graph (also in the archive) are no weights and left out. Releases before 2.8 put a whole checkpoint,
`serialized_state_dict.pt`, into a plain ZIP archive; `torch_zip` opens that one.

Format facts: torch/export/pt2_archive and torch/_export/serde/schema.py of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping

from importer.arrays import Array, strided
from importer.containers.base import Opaque, TableContainer
from importer.containers.files import parse_json_object
from importer.containers.json_fields import JsonFields, Message
from importer.containers.zip_archive import ZipArchive
from importer.dtypes import DTYPES, DType
from importer.errors import Location, MissingFileError, UnsupportedError, shown

__all__ = ["read_exported"]

_FOLDER = "data/weights/"
_CONFIG = "_weights_config.json"

# `ScalarType` of the schema.
_TYPES: Mapping[int, DType] = {
    number: DTYPES[name]
    for number, name in {
        1: "U8", 2: "I8", 3: "I16", 4: "I32", 5: "I64", 6: "F16", 7: "F32", 8: "F64", 9: "C32", 10: "C64", 11: "C128",
        12: "BOOL", 13: "BF16", 28: "U16", 29: "F8_E4M3", 30: "F8_E5M2", 31: "F8_E4M3FNUZ", 32: "F8_E5M2FNUZ",
        33: "F8_E8M0", 34: "U32", 35: "U64",
    }.items()
}  # fmt: skip


def read_exported(archive: ZipArchive, root: str, *, big_endian: bool) -> TableContainer:
    """Return the weights of every model in the archive; names begin with the model's where there is more than one.

    Raises:
        CorruptContainerError: a description is damaged.
        MissingFileError: a record is missing.
        UnsupportedError: a type that is not known.
        TensorError: a tensor reaches outside of its record.
    """
    folder = root + _FOLDER
    configs = [name for name in archive.entries if name.startswith(folder) and name.endswith(_CONFIG)]
    arrays: dict[str, Array] = {}
    opaque: list[Opaque] = []
    for config in configs:
        where = Location(path=archive.file.path, record=config)
        fields = JsonFields(where)
        text = archive.read(config, "max_text_record_bytes")
        table = fields.message(parse_json_object(text, where, archive.file.budget), "config")
        prefix = f"{config[len(folder) : -len(_CONFIG)]}." if len(configs) > 1 else ""
        for name in table:
            payload = fields.message(table, name)
            if payload.get("use_pickle"):
                opaque.append(Opaque(prefix + name, "wrapper", "a tensor subclass, stored as a pickle of its own"))
            else:
                record = folder + fields.text(payload, "path_name")
                arrays[prefix + name] = _array(archive, record, fields, payload, big_endian=big_endian)
    return TableContainer(kind="exported", paths=(archive.file.path,), arrays=arrays, opaque=tuple(opaque))


def _array(archive: ZipArchive, record: str, fields: JsonFields, payload: Message, *, big_endian: bool) -> Array:
    """Return one weight as a view of its record."""
    meta = fields.message(payload, "tensor_meta")
    dtype = _TYPES.get(fields.number(meta, "dtype"))
    if dtype is None:
        raise UnsupportedError(
            f"the element type {shown(meta.get('dtype'))} is not known",
            where=fields.where,
            how="If a torch release writes it, report it; otherwise the file is damaged.",
        )
    if record not in archive.entries:
        raise MissingFileError(
            f"record {shown(record)} does not exist in the archive",
            where=fields.where,
            how="The file is incomplete: download or copy it again.",
        )
    shape, strides = fields.sizes(meta, "sizes"), fields.sizes(meta, "strides")
    offset = fields.number(fields.message(meta, "storage_offset"), "as_int")
    return strided(archive.storage(record), dtype, shape, strides, offset, big_endian=big_endian)
