"""The process in which Python itself reports what reading does (`sys.addaudithook`, which cannot be taken back).

    python -m tests.security.audited FOLDER

opens, lists and converts every sample of the fuzzer and every attack, and prints one JSON list for each event that is not
part of reading: `[file, event, detail]`. What reading needs has been imported before, by converting good files that the
tests build themselves. Not here: the judgement (`test_audited`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import importer
from importer.cli import main as importer_main
from importer.dtypes import BF16
from importer.errors import ImporterError
from importer.recipes import apply_recipe, load_recipe
from tests.builders.named import of_names
from tests.fuzz.corpus import Sample, groups, samples
from tests.security.attacks import ATTACKS

_NEVER = ("import", "exec", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.putenv", "subprocess.Popen",
          "pickle.find_class", "marshal.loads", "code.__new__", "ctypes.dlopen", "socket.connect", "webbrowser.open",
          "builtins.input", "function.__new__")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_BELOW = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod")


class Watch:
    """What is being read now, where it may write, and what it did beyond that."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.subject: str | None = None
        self.is_recipe = False
        self.events: list[tuple[str, str, str]] = []

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        """Note an event that is not part of reading."""
        if self.subject is not None and self.is_offence(event, arguments):
            subject, self.subject = self.subject, None  # repr below may raise events itself
            self.events.append((subject, event, repr(arguments)[:300]))
            self.subject = subject

    def is_offence(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event == "compile":
            # Formulas of recipes are parsed to a tree by `ast.parse`, which has no file name; the tree is never run.
            return not (self.is_recipe and arguments[1] == "<unknown>")
        if event == "open":
            path, mode, flags = arguments
            writes = bool(set(str(mode or "")) & set("wax+")) or bool(isinstance(flags, int) and flags & _WRITING)
            return writes and not str(path).startswith(self.folder)
        if event in _BELOW:
            # Publishing links the nameless output file, through its descriptor, to its name.
            return not str(arguments[0]).startswith((self.folder, "/proc/self/fd/"))
        return event in _NEVER

    @contextlib.contextmanager
    def over(self, sample: Sample) -> Iterator[None]:
        """Watch while one sample is read."""
        self.subject, self.is_recipe = sample.name, sample.is_recipe
        try:
            yield
        finally:
            self.subject = None


def use(sample: Sample, folder: Path) -> None:
    """Put a sample into a folder, list it and convert it, or apply it where it is a recipe."""
    path = folder / sample.main
    if sample.is_recipe:
        with contextlib.suppress(ImporterError):
            apply_recipe(load_recipe(path), of_names("model.a", "b.c.weight"), {"hidden_size": 4})
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        importer_main(["inspect", "--sha256", "--limit", "max_expansion=1000", str(path)])
        importer_main(
            ["convert", "--recipe", "none", "--limit", "max_tensor_bytes=1MB", str(path), str(folder / "o.bpk")]
        )


def everything() -> Iterable[Sample]:
    """Yield all samples and all attacks."""
    yield from samples()
    for attack in ATTACKS:
        yield Sample(f"attack: {attack.name}", attack.files, attack.main, attack.is_recipe)


def import_everything_of_ours() -> None:
    """Import every module of the package: what is imported while a file is read is then not one of ours, put off till needed."""
    for module in pkgutil.walk_packages(importer.__path__, "importer."):
        if module.name != "importer.__main__":
            import_module(module.name)


def main(folder: Path) -> None:
    """Use everything under watch."""
    tempfile.tempdir = str(folder)
    watch = Watch(folder)
    sys.addaudithook(watch.hook)
    import_everything_of_ours()
    BF16.numpy()
    good = [*groups()[0], next(sample for sample in samples() if sample.is_recipe)]
    for number, sample in enumerate((*good, *everything())):
        place = folder / str(number)
        place.mkdir()
        for name, data in sample.files.items():
            (place / name).write_bytes(data)
        with watch.over(sample) if number >= len(good) else contextlib.nullcontext():
            use(sample, place)
    for event in watch.events:
        sys.stdout.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
