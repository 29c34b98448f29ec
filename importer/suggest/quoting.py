"""Names from files as YAML: plain where they can be, quoted where they must, escaped where a terminal would obey them.

Not here: what the lines say (`template_text`, `recipe_text`).
"""

from __future__ import annotations

import re

__all__ = ["pattern_text", "quoted"]

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """Return a text as a quoted YAML scalar, in one printable line whatever it holds."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def pattern_text(text: str) -> str:
    """Return a pattern that matches a text; Rust's regex knows no escapes of signs that mean nothing, which Python's has."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - YAML 1.2 section 5.7: two, four or eight digits
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
