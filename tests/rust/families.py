"""Rust modules and converted files of every recorded family, for the crate `tests/burn/generated`: no Burn is needed here.

    python -m tests.rust.families FOLDER

writes FOLDER/NAME.rs and FOLDER/NAME.bpk (also in half precision, and as safetensors), and FOLDER/table.rs, which lists
them. Not here: what Burn says of them (`tests/burn/generated`).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from importer.conversion import convert
from importer.rust import rust_of_checkpoint
from tests.families.recorded import RECIPES
from tests.families.synthetic import load, write_values

LARGE = {"vgg11_bn", "vgg16", "resnet50", "inception_v3"}
"""Families of one size only, 100 MB and more: their modules are compiled, their weights are not loaded."""


FLAT = {"efficientnet_timm"}
"""Families of a recipe without a target, whose blocks name equal fields in different orders: no struct has both."""


@dataclass(frozen=True, slots=True)
class Made:
    """A family's Rust module: the text, the root struct, and how many numbers its config wants."""

    name: str
    text: str

    @property
    def struct(self) -> str:
        found = re.search(r"^impl (\w+)Config \{", self.text, re.MULTILINE)
        assert found is not None
        return found[1]

    def line(self) -> str:
        """Return its entry in the table."""
        numbers = ", ".join("2" for _ in self.wanted())
        fresh = f"{self.name}::{self.struct}Config::new({numbers}).init(device)"
        is_nested = str(self.name not in FLAT).lower()
        return f'    ("{self.name}", |folder, device| judge(|| {fresh}, folder, "{self.name}", {is_nested})),'

    def wanted(self) -> list[str]:
        """Return the settings without a default."""
        body = self.text[self.text.index(f"pub struct {self.struct}Config {{") :]
        lines = body[: body.index("\n}")].splitlines()
        fields = [
            number for number, line in enumerate(lines) if line.strip().startswith("pub ") and "struct" not in line
        ]
        return [lines[number] for number in fields if "#[config(" not in lines[number - 1]]


def write_all(folder: Path) -> None:
    """Write modules, files and the table."""
    folder.mkdir(parents=True, exist_ok=True)
    made = list(_made(folder))
    modules = "".join(f'#[path = "{folder / one.name}.rs"]\npub mod {one.name};\n' for one in made)
    rows = "\n".join(one.line() for one in made if one.name not in LARGE)
    table = f"pub const FAMILIES: &[(&str, Judge)] = &[\n{rows}\n];\n"
    (folder / "table.rs").write_text(modules + table, encoding="utf-8")


def _made(folder: Path) -> Iterator[Made]:
    for name in RECIPES:
        with tempfile.TemporaryDirectory() as scratch:
            source = write_values(load(name), Path(scratch) / name)
            one = Made(name, rust_of_checkpoint(source))
            (folder / f"{name}.rs").write_text(one.text, encoding="utf-8")
            if name not in LARGE:
                convert(source, folder / f"{name}.bpk", overwrite=True, param_ids="stable")
                convert(source, folder / f"{name}-half.bpk", overwrite=True, dtype="f16")
                convert(source, folder / f"{name}.safetensors", overwrite=True)
        yield one


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
