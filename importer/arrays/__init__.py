"""Lazy array expressions: shapes and dtypes settle without bytes, blocks come on demand."""
