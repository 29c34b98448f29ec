"""What a file is that is no checkpoint: told from its first bytes, with what to do about it.

Not here: damaged checkpoints, which the reader of their layout describes.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from importer.errors import Location, UnknownContainerError

__all__ = ["foreign"]


class _Signature(NamedTuple):
    """Bytes at an offset that tell a kind of file, what to call it, and what to do."""

    offset: int
    magic: bytes
    what: str
    how: str


_UNPACK = "Unpack it first and pass the file inside."
_EXPORTED = "It cannot be converted back; pass the checkpoint it was made from."

_SIGNATURES = (
    _Signature(0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    _Signature(0, b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    _Signature(0, b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    _Signature(0, b"\x04\x22\x4d\x18", "an lz4 archive", _UNPACK),
    _Signature(0, b"BZh", "a bzip2 archive", _UNPACK),
    _Signature(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    _Signature(0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    _Signature(0, b"GGUF", "a GGUF model of llama.cpp", _EXPORTED),
    _Signature(4, b"TFL3", "a TensorFlow Lite model", _EXPORTED),
    _Signature(0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", "Save the weights as .safetensors."),
    _Signature(0, b"\x93NUMPY", "a single numpy array", "Save it under a name as .safetensors."),
    _Signature(0, b"\x00\x05\x16\x07", "a macOS resource fork", "Pass the file without '._' before its name."),
    _Signature(0, b"%PDF-", "a PDF document", "Check the path."),
)

_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v\d+\n(?:.*\n)*?size (\d{1,20})\s")
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|head|\?xml|!--)", re.IGNORECASE)
# ONNX and TensorFlow write their models as protocol buffers: a small version number, then a text or message.
_PROTOBUF = re.compile(rb"\x08[\x01-\x14][\x12\x1a\x22\x3a]")
_SHOWN_BYTES = 8


def foreign(path: str, head: bytes) -> UnknownContainerError:
    """Return the error for a file that is no checkpoint and begins with `head`."""
    what, how = _describe(head)
    return UnknownContainerError(f"this is no checkpoint but {what}", where=Location(path=path), how=how)


def _describe(head: bytes) -> tuple[str, str]:
    if not head:
        return "an empty file", "Download or copy it again."
    if not any(head):
        return "a file of zeros, as an unfinished download leaves", "Download or copy it again."
    if pointer := _LFS.match(head):
        return (
            f"a Git LFS pointer; the {int(pointer[1]):,} bytes of the real file are missing",
            "Run 'git lfs pull' in the repository, or download the file itself.",
        )
    if _HTML.match(head):
        return (
            "an HTML page",
            "The link led to a web page: download the file itself (on Hugging Face, 'resolve' instead of 'blob').",
        )
    for signature in _SIGNATURES:
        if head.startswith(signature.magic, signature.offset):
            return signature.what, signature.how
    return _describe_rest(head)


def _describe_rest(head: bytes) -> tuple[str, str]:
    if head.lstrip()[:1] in {b"{", b"["}:
        return "JSON text", "Pass the weights, or the folder that holds both."
    if _PROTOBUF.match(head):
        return "a protocol buffer, most likely an ONNX or TensorFlow model", _EXPORTED
    if _is_text(head):
        return "text", "Check the path; open the file in an editor to see what it is."
    first = head[:_SHOWN_BYTES].hex(" ")
    return (
        f"of an unknown kind (first bytes {first})",
        "Pass a .pt, .pth, .bin, .ckpt, .safetensors or .bpk file, or a folder with one.",
    )


def _is_text(head: bytes) -> bool:
    try:
        # Without `final`, a character cut off at the end is no fault.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(sign.isprintable() or sign.isspace() for sign in text)
