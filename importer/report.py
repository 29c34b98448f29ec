"""ApplyResult: what happened to every tensor, as text for people, JSON for scripts, Markdown for pull requests.

The five lists are those of burn-store (applied, skipped, missing, unused, errors); each line can say the source name,
the output name and the rules that fired. Not here: decisions (`importer.plan`) and printing (`importer.cli`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from importer.errors import printable
from importer.plan import Missing, PlannedTensor, Problem, Skipped, Unused
from importer.recipes import SettledSetting

__all__ = ["REPORT_SCHEMA_VERSION", "Applied", "ApplyResult", "applied_from"]

REPORT_SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes meaning or goes away; new fields do not raise it."""

_SHOWN_LINES = 10
_OVERFLOWS = "Became infinite: too large for the element type they are written in"
_BACK_QUOTES = re.compile("`+")
_RULE_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Applied:
    """A tensor that is in the output (or would be, in a dry run).

    Attributes:
        name: its name in the output.
        sources: the source tensors it was made from.
        dtype: its element type in safetensors' spelling.
        shape: its shape in the output.
        nbytes: its size.
        layer: Burn layer kind, if known.
        rules: the rules, types and options that changed it, in order.
    """

    name: str
    sources: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    layer: str | None
    rules: tuple[str, ...]


def applied_from(step: PlannedTensor) -> Applied:
    """Return the report's line for an output tensor."""
    return Applied(
        name=step.name,
        sources=step.sources,
        dtype=step.array.dtype.name,
        shape=step.array.shape,
        nbytes=step.array.nbytes,
        layer=step.layer,
        rules=tuple(dict.fromkeys(str(trail.rule) for trail in step.trail)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """The outcome of one conversion.

    Attributes:
        source: path that was converted.
        container: layout of the source.
        root: dotted path below which the weights were taken; "" for the top.
        recipe: recipe name or file and why it was chosen; None for a conversion without one.
        target: what declared the expected names, or None if nothing did (then `missing` cannot be known).
        output: path that was, or would be, written.
        format: burnpack or safetensors.
        written: whether the output is there now.
        dry_run: whether writing was not asked for.
        applied: tensors in the output.
        skipped: source tensors dropped by a rule or an option.
        missing: declared by the target, not given by the source.
        unused: given by the source, not asked for.
        errors: entries that cannot be converted.
        notes: remarks worth reading.
        idle_rules: rules of the recipe that matched nothing.
        overflows: finite values that became infinite in a narrower type, counted while writing, by tensor.
        settings: what the Rust module must be told besides the weights: eps, activation, rotary theta… by this config.
        output_bytes: size of the output; 0 where the report forbids it.
        files: every file of the output, in order.
        seconds: wall time from call to result.
        allow_missing: policy in force.
        strict: policy in force.
    """

    source: str
    container: str
    root: str
    recipe: str | None
    target: str | None
    output: str
    format: str
    written: bool
    dry_run: bool = False
    applied: tuple[Applied, ...]
    skipped: tuple[Skipped, ...] = ()
    missing: tuple[Missing, ...] = ()
    unused: tuple[Unused, ...] = ()
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    unmatched_rules: tuple[str, ...] = ()
    overflows: Mapping[str, int] = field(default_factory=dict)
    settings: tuple[SettledSetting, ...] = ()
    output_bytes: int = 0
    files: tuple[str, ...] = ()
    seconds: float = 0.0
    allow_missing: bool = False
    strict: bool = False

    @property
    def is_success(self) -> bool:
        """Whether policy lets the conversion stand: no errors, missing or nothing only if allowed, unused only if not strict."""
        lacks = bool(self.missing) or not self.applied
        return not (self.errors or (lacks and not self.allow_missing) or (self.strict and self.unused))

    @property
    def exit_code(self) -> int:
        """What the command line ends with: 0, or 1 if the report forbids the conversion."""
        return 0 if self.is_success else 1

    def to_json(self) -> str:
        """Return the whole report as one JSON object, `schema_version` first, in ASCII, so that no locale can spoil it."""
        return json.dumps(self._as_data(), indent=2) + "\n"

    def _as_data(self) -> dict[str, object]:
        head: dict[str, object] = {
            "schema_version": REPORT_SCHEMA_VERSION,
            "is_success": self.is_success,
            "exit_code": self.exit_code,
        }
        plain = (
            *("source", "container", "root", "recipe", "target", "output", "format", "written", "dry_run"),
            *("output_bytes", "files", "seconds", "allow_missing", "strict", "notes", "unmatched_rules"),
        )
        head.update({name: getattr(self, name) for name in plain})
        head["overflows"] = dict(self.overflows)
        head["settings"] = {one.name: one.value for one in self.settings}
        head["applied"] = [_fields(entry) for entry in self.applied]
        head["skipped"] = [_fields(entry) for entry in self.skipped]
        head["missing"] = [_fields(entry) for entry in self.missing]
        head["unused"] = [_fields(entry) for entry in self.unused]
        head["errors"] = [_fields(entry) for entry in self.errors]
        return head

    def to_text(self, *, lines: int = _SHOWN_LINES) -> str:
        """Return a summary for people, at most `lines` lines a list (0 for all of them)."""
        return "\n".join(_text(self, lines)) + "\n"

    def to_markdown(self, *, lines: int = _SHOWN_LINES) -> str:
        """Return a summary for a pull request or a job page."""
        return "\n".join(_markdown(self, lines)) + "\n"


def _fields(entry: object) -> dict[str, object]:
    """Return a slotted entry as JSON-ready data; element types by name."""
    names: Iterable[str] = entry.__slots__  # type: ignore[attr-defined]  # all report entries are slotted dataclasses
    values = {name: getattr(entry, name) for name in names}
    return {name: str(value) if name == "dtype" else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class _Section:
    """One list of the report: its mark, counter and the lines to show."""

    mark: str
    label: str
    title: str
    lines: tuple[str, ...] = field(default=())


def _sections(result: ApplyResult) -> tuple[_Section, ...]:
    """Return the five lists with their lines, in burn-store's order."""
    missing = (
        "not declared: nothing says what the target needs" if result.target is None else "in the target, not given"
    )
    return (
        _Section("✓", "Applied", "in the output"),
        _Section("⊘", "Skipped", "dropped by a rule or an option", tuple(_skipped(result.skipped))),
        _Section("✗", "Missing", missing, tuple(_missing(result.missing))),
        _Section("?", "Unused", "in the source, not asked for", tuple(_unused(result.unused))),
        _Section("!", "Errors", "cannot be converted", tuple(_errors(result.errors))),
    )


def _counts(result: ApplyResult) -> tuple[int, ...]:
    return tuple(
        len(entries) for entries in (result.applied, result.skipped, result.missing, result.unused, result.errors)
    )


def _skipped(entries: Iterable[Skipped]) -> Iterator[str]:
    for entry in entries:
        yield f"{printable(entry.name)}  [{printable(entry.rule)}]"


def _missing(entries: Iterable[Missing]) -> Iterator[str]:
    for entry in entries:
        kind = f" of {entry.layer}" if entry.layer else ""
        hint = f"  did you mean: {printable(entry.suggestion)}?" if entry.suggestion else ""
        yield f"{printable(entry.name)}  {list(entry.shape)}{kind}{hint}"


def _unused(entries: Iterable[Unused]) -> Iterator[str]:
    for entry in entries:
        origin = "" if entry.sources == (entry.name,) else f"  from {', '.join(map(printable, entry.sources))}"
        yield f"{printable(entry.name)}  {entry.dtype} {list(entry.shape)}{origin}  [{printable(entry.reason)}]"


def _errors(entries: Iterable[Problem]) -> Iterator[str]:
    for entry in entries:
        yield f"{printable(entry.name)}: {printable(entry.message)}. {printable(entry.how)}"


def _settings(settings: Iterable[SettledSetting]) -> Iterator[str]:
    for one in settings:
        value = one.value if isinstance(one.value, str) else json.dumps(one.value)
        yield f"{printable(one.name)}: {printable(value)}"


def _overflows(counts: Mapping[str, int]) -> Iterator[str]:
    """Say how many values of which tensor are lost, most first."""
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"{printable(name)}  {count:,} value{'' if count == 1 else 's'}"


def _headline(result: ApplyResult) -> Iterator[tuple[str, str]]:
    """Say what was converted how, one fact at a time: what it is about, and the fact."""
    root = f", root {printable(result.root)}" if result.root else ""
    yield "source", f"{printable(result.source)} ({result.container}{root})"
    yield "recipe", printable(result.recipe) if result.recipe else "none: names and layouts as they are"
    if result.target:
        yield "target", printable(result.target)
    yield "output", f"{printable(result.output)} ({result.format}, {_outcome(result)})"


def _outcome(result: ApplyResult) -> str:
    size = f"{result.output_bytes:,} bytes"
    if result.written:
        return f"{size}, {result.seconds:.2f} s"
    if result.dry_run:
        return f"dry run, would be {size}" if result.is_success else "dry run, would be refused"
    return "not written"


def _text(result: ApplyResult, limit: int) -> Iterator[str]:
    yield "┌─ Conversion Summary " + "─" * (_RULE_WIDTH - 21)
    yield "│"
    yield from (f"│ {about:<8} {fact}" for about, fact in _headline(result))
    yield "│"
    sections = _sections(result)
    counts = _counts(result)
    for section, count in zip(sections, counts, strict=True):
        yield f"│ {section.mark} {section.label + ':':<9}{count:>7}  {section.title}"
    for section, count in zip(sections, counts, strict=True):
        if section.lines:
            yield from _text_list(f"{section.label} ({count}): {section.title}", section.lines, limit)
    if result.unmatched_rules:
        yield from _text_list("Rules that matched nothing", tuple(map(printable, result.unmatched_rules)), limit)
    if result.settings:
        yield from _text_list("Set these in your module", tuple(_settings(result.settings)), 0)
    if result.overflows:
        yield from _text_list(_OVERFLOWS, tuple(_overflows(result.overflows)), limit)
    if result.notes:
        yield from _text_list("Notes", tuple(map(printable, result.notes)), limit)
    yield "│"
    yield f"└─ {_verdict(result)}"


def _text_list(title: str, lines: tuple[str, ...], limit: int) -> Iterator[str]:
    yield "│"
    yield f"├─ {title}"
    yield from (f"│    • {line}" for line in _cut(lines, limit))


def _cut(lines: tuple[str, ...], limit: int) -> Iterator[str]:
    """Yield at most `limit` lines and how many more there are."""
    shown = lines if limit == 0 else lines[:limit]
    yield from shown
    if len(shown) < len(lines):
        yield f"… and {len(lines) - len(shown)} more (all of them: --report FILE.json)"


def _verdict(result: ApplyResult) -> str:
    """One sentence: done, or what stands in the way and the way on."""
    if result.is_success:
        return "done" if result.written else "ready"
    if result.errors:
        return "refused: entries with errors; nothing was written"
    if result.missing and not result.allow_missing:
        return "refused: the target needs tensors the source does not give (--allow-missing leaves them out)"
    if not result.applied and not result.allow_missing:
        return "refused: no tensor of the source has a place in the target (--allow-missing writes an empty file)"
    return "refused by --strict: there are unused tensors"


def _markdown(result: ApplyResult, limit: int) -> Iterator[str]:
    done = "would convert" if result.dry_run else "converted"
    yield f"### importer: {done if result.is_success else 'refused'}"
    yield ""
    yield from (f"- {about}: {_code(fact)}" for about, fact in _headline(result))
    yield ""
    sections = _sections(result)
    counts = _counts(result)
    yield "| " + " | ".join(section.label for section in sections) + " |"
    yield "|" + " --: |" * len(sections)
    yield "| " + " | ".join(map(str, counts)) + " |"
    listed = [(section.label, section.lines) for section in sections if section.lines]
    if result.unmatched_rules:
        listed.append(("Rules that matched nothing", result.unmatched_rules))
    if result.settings:
        listed.append(("Set these in your module", tuple(_settings(result.settings))))
    if result.overflows:
        listed.append((_OVERFLOWS, tuple(_overflows(result.overflows))))
    if result.notes:
        listed.append(("Notes", result.notes))
    for title, lines in listed:
        yield from ("", f"**{title}**", "")
        yield from (f"- {_code(line)}" for line in _cut(tuple(lines), limit))


def _code(text: str) -> str:
    """Return a text as Markdown shows it letter by letter: names may hold elements, links and back quotes.

    A code span ends at a run of as many back quotes as it began with (CommonMark 6.1), so it begins with more than are in it.
    """
    text = printable(text)
    fence = "`" * (1 + max((len(run) for run in _BACK_QUOTES.findall(text)), default=0))
    padding = " " if len(fence) > 1 or text.startswith(" ") else ""
    return f"{fence}{padding}{text}{padding}{fence}"
