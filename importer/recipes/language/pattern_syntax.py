r"""Reading a pattern in Rust's regex syntax: what is allowed, and how it is written for the Python module `regex`.

Left out though Rust has it: flags other than `i` and `s`, `\b{…}`, `\<`, `\>` and set operations in classes - names of
tensors need none of it. Source of the syntax: documentation of the crate `regex` 1.11, section "Syntax". Not here: the
pattern as a value, and matching (`patterns`).
"""

from __future__ import annotations

from importer.errors import shown
from importer.recipes.faults import TextError

__all__ = ["PatternParser"]

_MAX_DEPTH = 50
_MAX_REPEAT = 1_000
"""Rust bounds the size of the compiled program; a counted repetition above this is never meant in a name."""

_MAX_SIZE = 10_000
"""Size of a pattern with its counted repetitions written out; Rust refuses programs above 10 MB, and the Python module
takes memory for each repetition."""
_MAX_DIGITS = 9
"""Digits of a repetition count or a code point that are looked at."""
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_LAST_CODE_POINT = 0x10FFFF

_CLASS_ESCAPES = frozenset("dDwWsS")
_CONTROL_ESCAPES = frozenset("ntrfva")
_ANCHOR_ESCAPES = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"\B"}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;=?@[\\]^_`{|}~")
_REFUSED_GROUPS = {
    "?=": "look-ahead",
    "?!": "look-ahead",
    "?<=": "look-behind",
    "?<!": "look-behind",
    "?>": "an atomic group",
    "?P=": "a back-reference",
    "?P>": "a recursive call",
    "?R": "a recursive call",
    "?|": "a branch reset",
    "?(": "a conditional group",
    "?#": "a comment group",
    "?&": "a recursive call",
}
_RUST_LACKS = "Rust's regex has no such thing: write the rule without it, or as several rules."


class PatternParser:
    """Reads a pattern once, writing the two translations as it goes.

    `literal` is the longest run of required characters seen so far by the level that is being read; a level that has
    alternatives requires nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.plain: list[str] = []
        self.dotted: list[str] = []
        self.groups: list[str | None] = []
        self.counters: set[str] = set()
        self.literal = ""
        self.size = 0
        self.dots = 0
        self.ignores_case = False

    def parse(self) -> None:
        """Read the whole pattern.

        Raises:
            TextError: Rust would refuse it, or it uses something left out here; with the position.
        """
        self._alternation(depth=0)
        if not self._at_end():
            raise self._fault("a ) without its (", "Write \\) for the character itself.")

    def _at_end(self) -> bool:
        return self.position >= len(self.text)

    def _fault(self, what: str, how: str, position: int | None = None) -> TextError:
        return TextError(what, how=how, position=self.position if position is None else position)

    def _emit(self, text: str, dotted: str | None = None) -> None:
        self.plain.append(text)
        self.dotted.append(text if dotted is None else dotted)

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _take(self, text: str) -> bool:
        """Step over `text` if it comes next."""
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _alternation(self, depth: int) -> None:
        """Read alternatives up to the closing parenthesis or the end; set `literal` to what they require."""
        if depth > _MAX_DEPTH:
            raise self._fault("groups are nested too deeply", f"Keep it below {_MAX_DEPTH} levels.")
        self._sequence(depth)
        size = self.size
        while self._take("|"):
            self._emit("|")
            self._sequence(depth)
            size += self.size
            self.literal = ""
        self.size = size

    def _sequence(self, depth: int) -> None:
        """Read one alternative; set `literal` to the longest run that every match of it contains, and its `size`."""
        best = run = ""
        size = 0
        while not self._at_end() and self._peek() not in "|)":
            start = len(self.plain)
            self.size = 1
            literal, inner = self._atom(depth)
            least = self._quantifier(start)
            size += self.size
            if least == 1 and literal:
                run += literal
                best = max(best, run, key=len)
                continue
            run = literal if least else ""
            best = max(best, run, inner if least else "", key=len)
            run = ""
        self.literal, self.size = best, size

    def _atom(self, depth: int) -> tuple[str, str]:
        """Read one thing a quantifier can follow; return its character if it is a plain one, and what it requires."""
        start = self.position
        char = self.text[start]
        self.position += 1
        if char == "\\":
            return self._escape(start), ""
        if char == "(":
            return "", self._group(start, depth)
        if char == "[":
            self._character_class(start)
        elif char == "{":
            self._counter(start)
        elif char == ".":
            self.dots += 1
            self._emit(".", f"(?P<dot__{self.dots}>.)")
        elif char in "*+?":
            raise self._fault(
                f"the {char} has nothing before it to repeat", f"Write \\{char} for the character.", start
            )
        elif char == "^":
            self._emit(r"\A")
        elif char == "$":
            self._emit(r"\Z")
        else:
            self._emit(_escaped(char))
            return char, ""
        return "", ""

    def _quantifier(self, start: int) -> int:
        """Read what follows an atom; return how often the atom occurs at least, 1 where nothing follows."""
        begin = self.position
        least = self._repetition()
        if least is None:
            return 1
        if self._peek() in ("*", "+") or (self._peek() == "?" and self.text[self.position : self.position + 2] == "??"):
            raise self._fault("a repetition of a repetition (possessive elsewhere)", _RUST_LACKS)
        if self.size > _MAX_SIZE:
            raise self._fault("the counts of the repetitions multiply to too much", "Use + or *.", begin)
        if self.plain[start] == ".":
            # `.*` and `.+` are meant to match anything; only a lone dot is a likely slip.
            self.dotted[start] = "."
        self._emit(self.text[begin : self.position])
        # Twice or more breaks a run of literals as well: "ab{2}c" contains no "abc".
        return least if least == 0 else 2

    def _repetition(self) -> int | None:
        """Step over `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}` and a lazy `?`; return the least count."""
        char = self._peek()
        if char in ("*", "+", "?"):
            self.position += 1
            least = 1 if char == "+" else 0
        elif char == "{" and self.text[self.position + 1 : self.position + 2].isdigit():
            least = self._counted()
        else:
            return None
        self._take("?")
        return least

    def _counted(self) -> int:
        start = self.position
        end = self.text.find("}", start)
        least, comma, most = self.text[start + 1 : end].partition(",")
        fits = end > 0 and _is_count(least) and (not most or _is_count(most))
        if not fits or (comma and most and int(most) < int(least)):
            raise self._fault("a repetition must be {m}, {m,} or {m,n}", "Write \\{ for the character itself.", start)
        if max(int(least), int(most or 0)) > _MAX_REPEAT:
            raise self._fault("a repetition count is too large", f"Keep it below {_MAX_REPEAT}.", start)
        self.position = end + 1
        self.size *= max(int(least), int(most or 0), 1)
        return int(least)

    def _escape(self, start: int) -> str:
        """Read what follows a backslash; return the character if it stands for a single plain one."""
        if self._at_end():
            raise self._fault("a pattern cannot end with a backslash", "Write \\\\ for the character itself.", start)
        char = self.text[self.position]
        self.position += 1
        if char in _PUNCTUATION:
            self._emit("\\" + char)
            return char
        if char in _ANCHOR_ESCAPES:
            if self._peek() == "{":
                raise self._fault(f"\\{char}{{…}} is not supported", "Write the rule without it.", start)
            self._emit(_ANCHOR_ESCAPES[char])
            return ""
        self._emit(self._class_escape(char, start))
        return ""

    def _class_escape(self, char: str, start: int) -> str:
        """Return the translation of an escape that may also stand inside a class."""
        if char in _CLASS_ESCAPES or char in _CONTROL_ESCAPES:
            return "\\" + char
        if char in "pP":
            return "\\" + char + self._property_name(start)
        if char in "xuU":
            return _escaped(self._code_point(char, start))
        if char.isdigit():
            raise self._fault(f"\\{char} is a back-reference", _RUST_LACKS, start)
        raise self._fault(f"the escape \\{char} does not exist in Rust's regex", "Remove the backslash.", start)

    def _property_name(self, start: int) -> str:
        end = self.text.find("}", self.position) if self._peek() == "{" else self.position
        name = self.text[self.position : end + 1]
        if end < 0 or not name.strip("{}^").replace("_", "").replace("=", "").isalnum():
            raise self._fault("a Unicode class must be written \\pL or \\p{Greek}", "Name the class.", start)
        self.position = end + 1
        return name if name.startswith("{") else f"{{{name}}}"

    def _code_point(self, char: str, start: int) -> str:
        if self._peek() == "{":
            end = self.text.find("}", self.position)
            digits, after = self.text[self.position + 1 : end], end + 1
        else:
            after = self.position + _HEX_DIGITS[char]
            digits = self.text[self.position : after]
        hexadecimal = (
            bool(digits) and len(digits) <= _MAX_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in digits)
        )
        if not hexadecimal or int(digits, 16) > _LAST_CODE_POINT or after > len(self.text):
            raise self._fault(f"\\{char} needs hexadecimal digits", "Write it like \\x41 or \\x{263A}.", start)
        self.position = after
        return chr(int(digits, 16))

    def _group(self, start: int, depth: int) -> str:
        """Read a group from after its `(`; return what every match of it contains."""
        if self._peek() == "?":
            if self._open_special(start):
                return ""
        else:
            self.groups.append(None)
            self._emit("(")
        self._alternation(depth + 1)
        if not self._take(")"):
            raise self._fault("a ( without its )", "Close the group, or write \\( for the character itself.", start)
        self._emit(")")
        return self.literal

    def _open_special(self, start: int) -> bool:
        """Read `?:`, `?P<name>`, `?<name>` or flags; return whether that was all (`(?i)`)."""
        for opening in sorted(_REFUSED_GROUPS, key=len, reverse=True):
            if self.text.startswith(opening, self.position):
                raise self._fault(f"{_REFUSED_GROUPS[opening]} is not allowed", _RUST_LACKS, start)
        if self._take("?P<") or self._take("?<"):
            self._named_group(start)
            return False
        return self._flags(start)

    def _named_group(self, start: int) -> None:
        end = self.text.find(">", self.position)
        name = self.text[self.position : end] if end > 0 else ""
        self._define(name, start)
        self.position = end + 1
        self._emit(f"(?P<{name}>")

    def _define(self, name: str, start: int) -> None:
        if not (name.isidentifier() and name.isascii()) or name.startswith("dot__"):
            raise self._fault(f"{shown(name)} is no name for a group", "Use letters, digits and _.", start)
        if name in self.groups:
            what = f"the name {shown(name)} stands twice, which would be a back-reference"
            raise self._fault(what, _RUST_LACKS, start)
        self.groups.append(name)

    def _flags(self, start: int) -> bool:
        end = self.position + 1
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "-"):
            end += 1
        flags, closing = self.text[self.position + 1 : end], self.text[end : end + 1]
        if closing not in (":", ")") or (closing == ")" and not flags):
            raise self._fault("this kind of group is not known", _RUST_LACKS, start)
        wrong = next((flag for flag in flags if flag not in "is-u"), None)
        if wrong is not None or "-u" in flags or flags.endswith("-"):
            how = "Only i (ignore case) and s are supported; names have no lines."
            raise self._fault(f"the flags {shown(flags)} are not supported", how, start)
        self.ignores_case = self.ignores_case or "i" in flags
        self.position = end + 1
        self._emit(f"(?{flags.replace('u', '')}{closing}" if flags.replace("u", "") else "(?:")
        return closing == ")"

    def _counter(self, start: int) -> None:
        r"""Read `{i}`, the recipe language's own spelling of a named `(\d+)`."""
        end = self.text.find("}", start)
        name = self.text[start + 1 : end] if end > 0 else ""
        if not name.isidentifier():
            how = "Write {i} for a number with a name, x{2} for a repetition, or \\{ for the character itself."
            raise self._fault("a { with nothing to repeat", how, start)
        self._define(name, start)
        self.counters.add(name)
        self.position = end + 1
        self._emit(rf"(?P<{name}>\d+)")

    def _character_class(self, start: int) -> None:
        """Copy a class; its syntax (ranges, POSIX names, nested sets, `&&`, `--`, `~~`) is `regex`'s own in version 1."""
        out = ["["]
        if self._take("^"):
            out.append("^")
        if self._take("]"):
            out.append("\\]")
        while not self._take("]"):
            if self._at_end():
                raise self._fault("a [ without its ]", "Close the class, or write \\[ for the character itself.", start)
            out.append(self._class_item(start))
        self._emit("".join([*out, "]"]))

    def _class_item(self, start: int) -> str:
        if self.text.startswith("[:", self.position):
            name, closing, _ = self.text[self.position + 2 :].partition(":]")
            if not closing or not name.strip("^").isalpha():
                raise self._fault("a POSIX class must be written [:alpha:]", "Close it with :].", start)
            self.position += len(name) + 4
            return f"[:{name}:]"
        if self.text[self.position] == "[":
            raise self._fault("a class inside a class is not supported", "List the characters in one class.", start)
        if self.text.startswith(("||", "&&", "--", "~~"), self.position):
            raise self._fault("set operations in a class are not supported", "List the characters in one class.", start)
        char = self.text[self.position]
        self.position += 1
        if char != "\\":
            return char
        if self._at_end():
            raise self._fault("a pattern cannot end with a backslash", "Write \\\\ for the character itself.", start)
        escaped = self.text[self.position]
        self.position += 1
        return "\\" + escaped if escaped in _PUNCTUATION else self._class_escape(escaped, start)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _escaped(char: str) -> str:
    """Return a character so that `regex` takes it for itself."""
    return f"\\{char}" if char in _PUNCTUATION else char
