"""The opened source: tensors, modules, values and roots, from whatever container they came in.

`open_checkpoint(path) -> Checkpoint` describes everything in a source; only `Tensor.numpy()` reads.
"""

from importer.checkpoint.contents import Checkpoint, ForeignGlobal, Module, Quantization, Tensor, Unsupported
from importer.checkpoint.joining import component_folders, join_checkpoints
from importer.checkpoint.opening import open_checkpoint

__all__ = [
    "Checkpoint",
    "ForeignGlobal",
    "Module",
    "Quantization",
    "Tensor",
    "Unsupported",
    "component_folders",
    "join_checkpoints",
    "open_checkpoint",
]
