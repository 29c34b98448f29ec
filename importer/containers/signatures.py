"""First bytes of files that are no checkpoint, what to call each, and what to do: one table.

Looked at after the layouts this package reads, so that none of theirs has to be excluded. Not here: text, and kinds that
take more than fixed bytes to tell (`unrecognized`).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BURN_RECORD", "EXPORTED", "FLAX", "JOBLIB", "LUA_TORCH", "SIGNATURES", "Signature"]


class Signature(NamedTuple):
    """Bytes at an offset that tell a kind of file, what to call it, and what to do."""

    offset: int
    magic: bytes
    what: str
    how: str


_UNPACK = "Unpack it first and pass the file inside."
EXPORTED = "It cannot be converted back; pass the checkpoint it was made from."
_SAVE = "Save the weights as .safetensors."
_PATH = "Check the path: pass the file with the weights."
_QUANTIZED = "Its weights are packed for one runtime; pass the checkpoint it was made from (the original Hugging Face repository)."
JOBLIB = (
    "a file of joblib.dump, which puts raw array bytes between the opcodes of a pickle",
    "Load it with joblib where it was written and save the arrays as .safetensors.",
)
LUA_TORCH = (
    "a .t7 file of Lua Torch, the predecessor of PyTorch",
    "Load it with torchfile or torch.utils.serialization.load_lua (up to PyTorch 0.4) and save a state dict.",
)
FLAX = (
    "msgpack data, as Flax writes its weights (flax_model.msgpack)",
    "Load it in transformers with from_flax=True and save_pretrained(), or save the arrays as .safetensors.",
)
BURN_RECORD = (
    "a record of an older Burn (named msgpack, .mpk)",
    "Load it with the Burn release that wrote it, and save the module as burnpack (.bpk) or safetensors.",
)

SIGNATURES = (
    # Archives and compressed streams.
    Signature(0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    Signature(0, b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    Signature(0, b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    Signature(0, b"\x04\x22\x4d\x18", "an lz4 archive", _UNPACK),
    Signature(0, b"BZh", "a bzip2 archive", _UNPACK),
    Signature(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    Signature(0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    Signature(0, b"ZF0x", "a compressed file of an old joblib", JOBLIB[1]),
    # Models of other frameworks.
    Signature(0, b"GGUF", "a GGUF model of llama.cpp", _QUANTIZED),
    Signature(0, b"lmgg", "a ggml model of llama.cpp or whisper.cpp", _QUANTIZED),
    Signature(0, b"fmgg", "a ggml model (ggmf) of llama.cpp", _QUANTIZED),
    Signature(0, b"tjgg", "a ggml model (ggjt) of llama.cpp", _QUANTIZED),
    Signature(0, b"algg", "a LoRA adapter (ggla) of llama.cpp", _QUANTIZED),
    Signature(4, b"TFL3", "a TensorFlow Lite model", EXPORTED),
    Signature(4, b"ET12", "a program exported for ExecuTorch (.pte)", EXPORTED),
    Signature(8, b"eh00", "a program exported for ExecuTorch (.pte)", EXPORTED),
    Signature(4, b"PTMF", "a model exported for PyTorch Mobile (flatbuffer .ptl)", EXPORTED),
    Signature(4, b"PTD0", "weights exported for ExecuTorch (.ptd)", EXPORTED),
    Signature(0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras and TensorFlow write (.h5)", _SAVE),
    Signature(0, b"\x93NUMPY", "a single numpy array", "Save it under a name as .safetensors."),
    Signature(0, b"MATLAB 5.0 MAT-file", "a MATLAB file", _SAVE),
    Signature(0, b"\x12\x01\0\0\0\0\0\0", "the parameters of an MXNet model", _SAVE),
    Signature(0, b"\0\0\0\0\x02\0\0\0\x05\0\0\0", "the weights of a Darknet model", _SAVE),
    Signature(0, b"ptrt", "an engine of TensorRT", EXPORTED),
    Signature(0, b"ftrt", "an engine of TensorRT", EXPORTED),
    Signature(0, b"7767517", "the graph of an ncnn model", EXPORTED),
    Signature(0, b"\xac\xed\0\x05", "a serialised Java object, as Deeplearning4j writes", _SAVE),
    # Data and programs.
    Signature(0, b"SQLite format 3\0", "an SQLite database", _PATH),
    Signature(0, b"PAR1", "a Parquet table", _PATH),
    Signature(0, b"ARROW1\0\0", "an Arrow table", _PATH),
    Signature(0, b"FEA1", "a Feather table", _PATH),
    Signature(0, b"\x7fELF", "a program or shared library (ELF)", EXPORTED),
    Signature(0, b"\xcf\xfa\xed\xfe", "a program or shared library (Mach-O)", EXPORTED),
    Signature(0, b"MZ\x90\0", "a program or library of Windows", EXPORTED),
    # Pictures, sound, documents.
    Signature(0, b"\x89PNG\r\n\x1a\n", "a picture (PNG)", _PATH),
    Signature(0, b"\xff\xd8\xff", "a picture (JPEG)", _PATH),
    Signature(0, b"GIF8", "a picture (GIF)", _PATH),
    Signature(8, b"WEBP", "a picture (WebP)", _PATH),
    Signature(0, b"II*\0", "a picture (TIFF)", _PATH),
    Signature(0, b"MM\0*", "a picture (TIFF)", _PATH),
    Signature(4, b"ftypavif", "a picture (AVIF)", _PATH),
    Signature(4, b"ftyphei", "a picture (HEIF)", _PATH),
    Signature(4, b"ftyp", "a video (MP4)", _PATH),
    Signature(8, b"AVI LIST", "a video (AVI)", _PATH),
    Signature(0, b"\x1a\x45\xdf\xa3", "a video (Matroska, WebM)", _PATH),
    Signature(8, b"WAVE", "sound (WAV)", _PATH),
    Signature(0, b"ID3", "sound (MP3)", _PATH),
    Signature(0, b"OggS", "sound or video (Ogg)", _PATH),
    Signature(0, b"fLaC", "sound (FLAC)", _PATH),
    Signature(0, b"%PDF-", "a PDF document", _PATH),
    Signature(0, b"\x00\x05\x16\x07", "a macOS resource fork", "Pass the file without '._' before its name."),
)
"""The first that matches counts: longer ones stand before what they begin with."""
