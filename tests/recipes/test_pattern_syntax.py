"""Which patterns are accepted, and why the others are not; the oracle is the syntax page of Rust's regex crate."""

from __future__ import annotations

import pytest

from importer.recipes.faults import TextError
from importer.recipes.language.patterns import parse_pattern

REFUSED = {
    "look-ahead": (r"a(?=b)", "look-ahead", 1),
    "negative look-ahead": (r"(?!b)", "look-ahead", 0),
    "look-behind": (r"x(?<=b)", "look-behind", 1),
    "negative look-behind": (r"(?<!b)", "look-behind", 0),
    "atomic group": (r"ab(?>c)", "atomic group", 2),
    "back-reference": (r"(a)\1", "back-reference", 3),
    "named back-reference": (r"(?P<n>a)(?P=n)", "back-reference", 8),
    "recursion": (r"(?R)", "recursive call", 0),
    "conditional": (r"(a)(?(1)b)", "conditional group", 3),
    "comment group": (r"(?#x)", "comment group", 0),
    "possessive": (r"a++", "repetition of a repetition", 2),
    "double star": (r"a**", "repetition of a repetition", 2),
    "unknown escape": (r"a\Zb", r"\Z does not exist", 1),
    "python's end": (r"\Q", r"\Q does not exist", 0),
    "multi-line flag": (r"(?m)^a", "flags 'm'", 0),
    "nothing to repeat": (r"*a", "nothing before it to repeat", 0),
    "nothing to repeat in a group": (r"(+a)", "nothing before it to repeat", 1),
    "open group": (r"x(a", "( without its )", 1),
    "closed group": (r"a)", ") without its (", 1),
    "open class": (r"a[bc", "[ without its ]", 1),
    "nested class": (r"[a[bc]]", "class inside a class", 0),
    "set operation": (r"[a-z&&b]", "set operations", 0),
    "trailing backslash": ("a\\", "end with a backslash", 1),
    "backwards count": (r"a{3,2}", "must be {m}", 1),
    "huge count": (r"a{99999}", "too large", 1),
    "counts that multiply": (r"((a{100}){100}){100}", "multiply to too much", 15),
    "special boundary": (r"\b{start}a", "is not supported", 0),
    "unknown group": (r"(?)a", "not known", 0),
    "backslash at the end of a class": ("[a\\", "end with a backslash", 0),
    "stray brace": (r"a{,2}", "{ with nothing to repeat", 1),
    "same name twice": (r"(?<i>a)(?<i>b)", "stands twice", 7),
    "counter twice": (r"a.{i}.b.{i}", "stands twice", 8),
    "bad group name": (r"(?<1a>b)", "no name for a group", 0),
    "bad property": (r"\p{}", "Unicode class", 0),
    "bad code point": (r"\x{zz}", "hexadecimal", 0),
    "code point too large": (r"\x{110000}", "hexadecimal", 0),
    "open posix class": (r"[[:alpha]]", "POSIX class", 0),
}

# pattern, a text it matches, a text it does not
ACCEPTED = {
    "literals": (r"^model\.", "model.x", "models.x"),
    "end is the very end": (r"a$", "xa", "a\n"),
    "start": (r"^a", "ab", "ba"),
    "end of text": (r"a\z", "a", "a\n"),
    "rust's named group": (r"(?<layer>\d+)\.w", "12.w", ".w"),
    "python's named group": (r"(?P<layer>\d+)\.w", "12.w", ".w"),
    "counter": (r"layers\.{i}\.", "layers.10.", "layers.x."),
    "counts": (r"^a{2,3}$", "aaa", "a"),
    "open count": (r"^a{2,}$", "aaaa", "a"),
    "exact count": (r"^\d{2}$", "12", "123"),
    "lazy": (r"^a+?b$", "aab", "b"),
    "optional": (r"^(?:transformer\.)?h\.", "h.0", "xh.0"),
    "alternatives": (r"^(?:bert|roberta)\.", "roberta.x", "albert.x"),
    "class": (r"^[qkvo]_proj", "k_proj", "x_proj"),
    "negated class": (r"^[^.]+$", "abc", "a.b"),
    "class with leading bracket": (r"^[]a]+$", "]a", "b"),
    "class escapes": (r"^[\d.\-]+$", "1.2-3", "a"),
    "posix class": (r"^[[:alpha:]]+$", "abc", "ab1"),
    "unicode class": (r"^\p{Greek}+$", "αβ", "ab"),
    "short unicode class": (r"^\pL+$", "aβ", "1"),
    "word boundary": (r"ffn\b", "x.ffn.y", "ffn_output"),
    "ignore case": (r"(?i)layernorm", "LayerNorm", "layer_norm"),
    "ignore case inside": (r"(?i:layer)norm", "LAYERnorm", "layerNORM"),
    "hexadecimal": (r"^\x41$", "A", "B"),
    "braced hexadecimal": (r"^\x{263A}$", "☺", "A"),
    "escaped punctuation": (r"^a\-b\/c$", "a-b/c", "a.b.c"),
    "brackets of a variant": (r"\.<Basic>\.", "0.<Basic>.conv1", "0.Basic.conv1"),
}


@pytest.mark.parametrize(("text", "what", "position"), REFUSED.values(), ids=REFUSED.keys())
def test_what_rust_refuses_is_refused_with_its_position(text: str, what: str, position: int) -> None:
    with pytest.raises(TextError) as caught:
        parse_pattern(text)
    assert what in caught.value.what
    assert caught.value.position == position
    assert caught.value.how


@pytest.mark.parametrize(("text", "yes", "no"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_rust_accepts_means_the_same_here(text: str, yes: str, no: str) -> None:
    pattern = parse_pattern(text)
    assert pattern.search(yes) is not None
    assert pattern.search(no) is None


def test_deeply_nested_groups_are_refused() -> None:
    with pytest.raises(TextError, match="nested too deeply"):
        parse_pattern("(" * 200 + "a" + ")" * 200)


def test_counts_that_multiply_within_reason_are_fine() -> None:
    assert parse_pattern(r"^((ab?){3}\.){1,4}$").search("aba" + "." + "aaa.") is None
    assert parse_pattern(r"^((ab?){3}\.){1,4}$").search("abaa.aaa.") is not None


def test_an_endless_pattern_is_refused() -> None:
    with pytest.raises(TextError, match="too long"):
        parse_pattern("a" * 5_000)


def test_groups_are_numbered_and_named_in_order() -> None:
    pattern = parse_pattern(r"(a)(?<b>c)(?:d)\.{i}\.")
    assert pattern.groups == (None, "b", "i")
    assert pattern.counters == {"i"}
