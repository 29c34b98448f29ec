"""Which parameters belong to which module: tensor names sorted below the module paths whose layer kind is known.

Not here: how the kinds became known (template, `types`, classes), and what happens to the parameters (`model`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Claims", "claim"]


@dataclass(frozen=True, slots=True)
class Claims:
    """Names by module.

    Attributes:
        modules: module path → leaf → name, in the order names first reach each module.
        unclaimed: names below no known module.
    """

    modules: dict[str, dict[str, str]]
    unclaimed: tuple[str, ...]


def claim(names: Iterable[str], paths: Container[str], *, deepest: bool = False) -> Claims:
    """Give every name to one of the module paths it lies below.

    Args:
        names: dotted parameter names.
        paths: modules with a known kind; "" is the whole checkpoint.
        deepest: which of several nested modules gets a name. False: the outermost, so that a transformer layer has
            its Linears (classes of a saved model). True: the innermost (a template, where each path was meant).
    """
    modules: dict[str, dict[str, str]] = {}
    unclaimed: list[str] = []
    for name in names:
        candidates = [path for path in _prefixes(name) if path in paths]
        if candidates:
            path = candidates[-1 if deepest else 0]
            leaf = name.removeprefix(path).removeprefix(".")
            modules.setdefault(path, {})[leaf] = name
        else:
            unclaimed.append(name)
    return Claims(modules, tuple(unclaimed))


def _prefixes(name: str) -> Iterator[str]:
    """Yield every module path above `name`, shortest first, and the name itself (a bare parameter)."""
    yield ""
    end = name.find(".")
    while end >= 0:
        yield name[:end]
        end = name.find(".", end + 1)
    yield name
