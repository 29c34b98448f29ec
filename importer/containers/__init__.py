"""File layouts behind one protocol: which bytes lie where. Knows nothing of what tensors mean.

`open_container` tells the layout from the contents and gives what `importer.containers.base` describes.
"""

from importer.containers.base import (
    Container,
    Opaque,
    Opened,
    PickleContainer,
    Resolved,
    Resolver,
    ScriptClass,
    SetContainer,
    Shard,
    StorageRecord,
    TableContainer,
)
from importer.containers.detecting import open_container
from importer.containers.files import read_json_object

__all__ = [
    "Container",
    "Opaque",
    "Opened",
    "PickleContainer",
    "Resolved",
    "Resolver",
    "ScriptClass",
    "SetContainer",
    "Shard",
    "StorageRecord",
    "TableContainer",
    "open_container",
    "read_json_object",
]
