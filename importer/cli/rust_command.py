"""`importer rust`: the Rust module for what a conversion writes, on stdout or in a file.

Not here: what stands in it (`importer.rust`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from importer.cli.arguments import Arguments
from importer.cli.report_file import write_text
from importer.errors import UsageError, printable, shown
from importer.rust import rust_of_checkpoint, rust_of_recipe, rust_of_target
from importer.writers import check_target

__all__ = ["run"]


def run(arguments: Arguments) -> int:
    """Print or write the file, and return 0."""
    text = _text(arguments)
    if arguments.rust_file is None:
        sys.stdout.write(text)
        return 0
    if arguments.options.dry_run:
        print(printable(f"would write {arguments.rust_file}: {len(text.splitlines())} lines"))
        return 0
    place = Path(arguments.rust_file)
    check_target(place, overwrite=arguments.options.overwrite)
    write_text(place, text, overwrite=arguments.options.overwrite)
    return 0


def _text(arguments: Arguments) -> str:
    """Return the file, from the one source that is given."""
    options, source = arguments.options, arguments.rust_source
    if arguments.numbers and source is not None:
        raise UsageError("--set gives numbers where there is no SRC", how="Leave out one of them.")
    if source is not None:
        return rust_of_checkpoint(source, options, name=arguments.struct)
    if options.target is not None:
        return rust_of_target(options.target, name=arguments.struct, limits=options.limits)
    if options.recipe in ("auto", "none"):
        raise UsageError(
            "there is nothing to write a module for", how="Give SRC, --target FILE, or --recipe NAME with --set."
        )
    numbers = dict(_numbers(arguments.numbers))
    return rust_of_recipe(options.recipe, numbers, name=arguments.struct, limits=options.limits)


def _numbers(given: Iterable[str]) -> Iterable[tuple[str, object]]:
    """Yield field and value of each KEY=VALUE; a dotted key goes into a nested configuration."""
    nested: dict[str, object] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"{shown(text)} does not give a field its value", how="Write it like hidden_size=384.")
        place = nested
        *outer, last = key.split(".")
        for part in outer:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(f"{shown(key)} lies inside a field that has a value", how="Give one of the two.")
            place = inner
        place[last] = _value(value)
    return nested.items()


def _value(text: str) -> object:
    """Return a JSON value, or the text itself."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value
