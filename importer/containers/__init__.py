"""File layouts behind one protocol: which bytes lie where. Knows nothing of what tensors mean."""
