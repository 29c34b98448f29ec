"""`importer template`: the target section for a module, read off a file its Burn program saved.

Not here: what field names and shapes tell (`importer.suggest`).
"""

from __future__ import annotations

import sys

from importer.cli.arguments import Arguments
from importer.conversion import open_target
from importer.suggest import read_target_modules, template_text

__all__ = ["run"]

_HEAD = """\
# From {path}: {count} parameters. Paste it under your recipe's rules.
# `check:` changes values: say which layer it is. `or …` would be written the same: say it if you like.
"""


def run(arguments: Arguments) -> int:
    """Print the template."""
    skeleton = open_target(arguments.skeleton)
    shapes = {name: tensor.shape for name, tensor in skeleton.tensors.items()}
    sys.stdout.write(_HEAD.format(path=ascii(arguments.skeleton)[1:-1], count=len(shapes)))
    sys.stdout.write(template_text(read_target_modules(shapes)))
    return 0
