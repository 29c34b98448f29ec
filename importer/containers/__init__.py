"""File layouts behind one protocol: which bytes lie where. Knows nothing of what tensors mean.

`open_container(path, limits) -> Opened` tells the layout by content, never by extension.
"""
