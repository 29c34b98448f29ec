"""Checks on output names that both formats share.

Not here: which names there are (`importer.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable

from importer.errors import UnrepresentableError, shown

__all__ = ["check_names", "encodable"]


def check_names(names: Iterable[str]) -> None:
    """Check that every name can be written, and stands once.

    Raises:
        UnrepresentableError: a name is not valid Unicode, or is there twice.
    """
    seen: set[str] = set()
    for name in names:
        if encodable(name) in seen:
            raise UnrepresentableError(
                f"two tensors are called {shown(name)}", how="Rename or drop one of them in the recipe."
            )
        seen.add(name)


def encodable(text: str) -> str:
    """Return `text` if it has a UTF-8 form; half a surrogate pair, as Python 2 files may hold, has none.

    Raises:
        UnrepresentableError: it has none.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnrepresentableError(
            f"{shown(text)} is not valid Unicode and cannot be written", how="Rename it in the recipe."
        ) from error
    return text
