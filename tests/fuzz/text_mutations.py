"""Changes to trees of plain values (headers of safetensors and burnpack, index files) and to lines of text (recipes)."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from tests.builders.tables import Value

__all__ = ["mutated_lines", "mutated_tree"]

_Container: TypeAlias = dict[Any, Any] | list[Any]

_VALUES: tuple[Value, ...] = (
    None, True, False, 0, 1, -1, 24, 25, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0.5, float("inf"), "", "F32",
    "BF16", "F8_E4M3", "I64", "F4", "Bool", "QFloat", "../up", "/abs", "a.b", "\x1b[31m", "é", [], [0], [1, 2, 3],
    [[]], {}, {"dtype": "F32"}, "x" * 5000, [1] * 70, [1 << 62, 4], [0, 1 << 62],
)  # fmt: skip
_WORDS = (
    "rename:", "drop:", "split:", "merge:", "- ", "  ", "\t", "{", "}", "[", "]", "&a ", "*a", "!!python/object:os.system ",
    "|\n", ">", "'", '"', "#", ": ", "? ", "(a+)+$", "(?P<n>.*)", r"\1", "${hidden_size}", "${1/0}", "${10**10**10}",
    "extends: llama", "{layer}", "null", "0x1F", "1e999", "\x00", "\ufeff", "…", "---\n", "...\n", "%YAML 1.1\n", "9" * 400,
)  # fmt: skip
_LONGEST_RUN = 2000


def mutated_tree(random: Random, tree: object) -> dict[str, Value]:
    """Change one to three places of a tree; JSON and CBOR headers are maps at the top."""
    root: dict[str, Any] = {"": tree}
    for _ in range(random.choice((1, 1, 2, 3))):
        _change(random, random.choice(_containers(root)), root)
    changed = root.get("")
    return changed if isinstance(changed, dict) else {"": None}


def _change(random: Random, container: _Container, root: _Container) -> None:
    """Replace, remove, rename or nest one entry, or take one from elsewhere."""
    keys: list[Any] = list(container) if isinstance(container, dict) else list(range(len(container)))
    if not keys:
        return
    key = random.choice(keys)
    elsewhere = random.choice(_containers(root))
    entries = list(elsewhere.values()) if isinstance(elsewhere, dict) else elsewhere
    match random.randrange(5):
        case 0 if container is not root:
            del container[key]
            return
        case 1:
            value: Any = random.choice(_VALUES)
        case 2:
            value = _nested(random.choice((2, 130, 1200)))
        case 3 if isinstance(container, dict) and container is not root:
            container[str(random.choice(_VALUES))[:6000]] = container.pop(str(key))
            return
        case _:
            value = random.choice(entries) if entries and elsewhere is not root else random.choice(_VALUES)
    if not _reaches(value, container):
        container[key] = value


def _nested(depth: int) -> Value:
    value: Value = 1
    for _ in range(depth):
        value = [value]
    return value


def _containers(root: object) -> list[_Container]:
    """Return every map and list of a tree, the root first; parts of it that are there twice count once."""
    found: list[_Container] = []
    pending = [root]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            found.append(value)
            pending.extend(value.values() if isinstance(value, dict) else value)
    return found


def _reaches(value: object, container: object) -> bool:
    """Whether putting `value` into `container` would close a circle, which no file can hold."""
    return any(part is container for part in _containers(value))


def mutated_lines(random: Random, data: bytes) -> bytes:
    """Remove, repeat, move, indent or cut up lines, and put words of the language where they do not belong."""
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True) or ["\n"]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines))
        line = lines[at]
        column = random.randrange(len(line) + 1)
        match random.randrange(8):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines[at:at] = [line] * random.choice((1, 2, _LONGEST_RUN))
            case 2:
                lines[at], lines[0] = lines[0], line
            case 3:
                lines[at] = " " * random.randrange(9) + line.lstrip(" ")
            case 4:
                lines[at] = line[:column] + random.choice(_WORDS) + line[column:]
            case 5:
                lines[at] = line[:column] + random.choice(_WORDS) * random.choice((2, 50, 1000)) + line[column:]
            case 6:
                lines[at] = line[:column] + random.choice(lines)
            case _:
                lines[at] = line[:column] + line[column + random.choice((1, 3, 10)) :]
    return "".join(lines).encode("utf-8", "surrogateescape")
