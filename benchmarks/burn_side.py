"""`python -m benchmarks.burn_side`: Burn's own import beside ours, on the same files; and the way to the first converted file.

    cargo build --release --manifest-path tests/burn/Cargo.toml --bin burn-import
    python -m benchmarks.burn_side --size 1GB --burn-import tests/burn/target/release/burn-import

Both read a `.pt` as it is and write a `.bpk`; Burn's side is `PytorchStore` and burn-pack in a release build, without a module,
so that no layout changes on either side. Rounds alternate, as in `python -m benchmarks`. Not here: what needs no Rust.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import CASES, Case, Scale
from benchmarks.measuring import ROOT, Usage, median
from benchmarks.running import built, fresh, importer_command

_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_COMPARED = ("bf16 copy", "tiny tensors", "small file")
_MEBIBYTE = 1 << 20


def rounds(case: Case, scale: Scale, burn: Path, folder: Path, repeat: int) -> tuple[Usage, Usage]:
    """Return the medians of our command and Burn's, run in turn on one input."""
    place = folder / case.title.replace(" ", "-")
    place.mkdir()
    source = built(case, place, scale)
    output = place / "output.bpk"
    ours = importer_command(case, source, output)
    theirs: Sequence[str | Path] = [burn, source, output]
    pairs = [(fresh(ours, place, output), fresh(theirs, place, output)) for _ in range(repeat)]
    return median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])


def table(rows: Sequence[tuple[str, Usage, Usage]]) -> str:
    """Return the results as Markdown."""
    lines = ["| case | importer | peak memory | Burn | peak memory | times as fast |", "|---|---|---|---|---|---|"]
    for title, ours, theirs in rows:
        faster = theirs.wall / ours.wall
        lines.append(
            f"| {title} | {ours.wall:.3f} s | {ours.peak // _MEBIBYTE} MiB "
            f"| {theirs.wall:.3f} s | {theirs.peak // _MEBIBYTE} MiB | {faster:.2f} |"
        )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Build the inputs, run both sides, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.burn_side", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--burn-import", type=Path, default=ROOT / "tests/burn/target/release/burn-import")
    parser.add_argument("--size", default="100MB", help="bytes of the large input: 100MB, 1GB")
    parser.add_argument("--tensors", type=int, default=10_000, help="tensors of the input with many small ones")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the table shows medians")
    parser.add_argument("--folder", help="where inputs and outputs go (default: the temporary folder)")
    asked = parser.parse_args(words)
    if not asked.burn_import.exists():
        sys.stderr.write(f"{asked.burn_import} is not there: build it first, as `--help` says.\n")
        return 2
    scale = Scale(int(asked.size[:-2]) * _UNITS[asked.size[-2:].upper()], asked.tensors)
    cases = [case for case in CASES if case.title in _COMPARED]
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        burn = asked.burn_import.resolve()
        rows = [(case.title, *rounds(case, scale, burn, Path(folder), asked.repeat)) for case in cases]
    sys.stdout.write(table(rows) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
