"""Convert PyTorch and Hugging Face checkpoints into files a Burn model loads, without PyTorch.

    import importer

    checkpoint = importer.open("model.pt")          # reads no tensor bytes, runs nothing
    checkpoint["fc.weight"].numpy()
    result = importer.convert("model.pt", "model.bpk")
    print(result.to_text())

Only the public names stand here. They are looked up on first use, so that `import importer` costs nothing and listing a
file never imports numpy.
"""

from __future__ import annotations

from importer._version import __version__

TYPE_CHECKING = False  # typing's own takes longer to import than all that is needed to begin
if TYPE_CHECKING:
    from importer.checkpoint import Checkpoint, Tensor
    from importer.checkpoint import open_checkpoint as open  # noqa: A004 - importer.open is the public spelling
    from importer.checkpoint.nested_values import read_value
    from importer.conversion import convert
    from importer.errors import ImporterError
    from importer.limits import Limits
    from importer.options import Options
    from importer.report import ApplyResult

__all__ = [
    "ApplyResult",
    "Checkpoint",
    "ImporterError",
    "Limits",
    "Options",
    "Tensor",
    "__version__",
    "convert",
    "open",
    "read_value",
]

_HOMES = {
    "ApplyResult": ("importer.report", "ApplyResult"),
    "Checkpoint": ("importer.checkpoint", "Checkpoint"),
    "ImporterError": ("importer.errors", "ImporterError"),
    "Limits": ("importer.limits", "Limits"),
    "Options": ("importer.options", "Options"),
    "Tensor": ("importer.checkpoint", "Tensor"),
    "convert": ("importer.conversion", "convert"),
    "open": ("importer.checkpoint", "open_checkpoint"),
    "read_value": ("importer.checkpoint.nested_values", "read_value"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'importer' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
