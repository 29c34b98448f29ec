"""Low-rank adapters worked into the weights of their base: which tensor changes which, and the sums, streamed.

Not here: module layouts (`importer.adapters`), and opening files (`importer.checkpoint`).
"""

from __future__ import annotations

from importer.merging.assembling import adapter_alone, adapter_summary, open_sources, split_weight
from importer.merging.recognising import AdapterKind, adapter_kind

__all__ = [
    "AdapterKind",
    "adapter_alone",
    "adapter_kind",
    "adapter_summary",
    "open_sources",
    "split_weight",
]
