"""What a file is that is no checkpoint: told from its first bytes, with what to do about it.

Not here: damaged checkpoints, which the reader of their layout describes.
"""

from __future__ import annotations

import codecs
import re
import zlib

from importer.containers.signatures import BURN_RECORD, EXPORTED, FLAX, JOBLIB, LUA_TORCH, SIGNATURES
from importer.errors import Location, UnknownContainerError

__all__ = ["describe", "foreign"]


_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v\d+\n(?:.*\n)*?size (\d{1,20})\s")
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|head|!--)", re.IGNORECASE)
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml", re.IGNORECASE)
# ONNX and TensorFlow write their models as protocol buffers: a small version number, then a text or message.
_PROTOBUF = re.compile(rb"\x08[\x01-\x14][\x12\x1a\x22\x3a]")
# Lua Torch: a type tag (3 table, 4 object), an index, then for objects a version text and a class; longs have 4 or 8 bytes.
_LUA_BINARY = re.compile(rb"[\x03\x04]\0{3}\x01\0{3}(?:\x03\0{3}V \d|[\x00-\xff]\0{3}\x02\0{3})", re.DOTALL)
_LUA_TEXT = re.compile(rb"[34]\n1\n(?:3\nV \d\n|\d+\n2\n)")
# msgpack: a map whose first key is a text. Burn's records begin with their metadata.
_BURN_RECORD = re.compile(rb"[\x81-\x8f]\xa8metadata[\x81-\x8f]")
_MSGPACK = re.compile(rb"(?:[\x81-\x8f]|\xde..|\xdf....)(?:[\xa1-\xbf]|\xd9.)[\w./ -]", re.DOTALL)
_BURN_JSON = re.compile(rb'\s*\{\s*"metadata"\s*:\s*\{\s*"float"\s*:')
_SHOWN_BYTES = 8


def foreign(path: str, head: bytes) -> UnknownContainerError:
    """Return the error for a file that is no checkpoint and begins with `head`."""
    what, how = describe(head)
    return UnknownContainerError(f"this is no checkpoint but {what}", where=Location(path=path), how=how)


def describe(head: bytes) -> tuple[str, str]:
    """Return what a file is that begins with `head`, and what to do about it."""
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
    if _XML.match(head):
        return (
            "an XML document, as servers send in place of a file that they cannot give",
            "Open it in an editor to see what went wrong, and download the file itself.",
        )
    for signature in SIGNATURES:
        if head.startswith(signature.magic, signature.offset):
            return signature.what, signature.how
    return _describe_structure(head) or _describe_rest(head)


def _describe_structure(head: bytes) -> tuple[str, str] | None:
    """Tell the kinds whose first bytes vary."""
    if b"joblib.numpy_pickle" in head:
        return JOBLIB
    if _is_zlib(head) and not _is_text(head):
        return "a zlib stream, as joblib.dump(compress=...) writes", JOBLIB[1]
    if _LUA_BINARY.match(head) or _LUA_TEXT.match(head):
        return LUA_TORCH
    if _BURN_RECORD.match(head):
        return BURN_RECORD
    if _MSGPACK.match(head):
        return FLAX
    if _BURN_JSON.match(head):
        return "a record of an older Burn as JSON", BURN_RECORD[1]
    return None


def _describe_rest(head: bytes) -> tuple[str, str]:
    if head.lstrip()[:1] in {b"{", b"["}:
        return "JSON text", "Pass the weights, or the folder that holds both."
    if _PROTOBUF.match(head):
        return "a protocol buffer, most likely an ONNX or TensorFlow model", EXPORTED
    if _is_text(head):
        return "text", "Check the path; open the file in an editor to see what it is."
    first = head[:_SHOWN_BYTES].hex(" ")
    return (
        f"of an unknown kind (first bytes {first})",
        "Pass a .pt, .pth, .bin, .ckpt, .safetensors or .bpk file, or a folder with one.",
    )


def _is_zlib(head: bytes) -> bool:
    """Whether a file begins with a zlib stream: two bytes say so, and the rest has to inflate."""
    if head[:1] != b"x" or int.from_bytes(head[:2], "big") % 31:
        return False
    try:
        return bool(zlib.decompressobj().decompress(head, 1))
    except zlib.error:
        return False


def _is_text(head: bytes) -> bool:
    try:
        # Without `final`, a character cut off at the end is no fault.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(sign.isprintable() or sign.isspace() for sign in text)
