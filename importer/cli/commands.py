"""The commands, one entry each: what it does, what it takes, and the module that carries it out.

Options of a conversion stand in `importer.options` and are taken by whole groups; declared here are only the flags that
shape what one command prints. Not here: parsing (`importer.cli.parser`), and the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from importer.options import OptionGroup

__all__ = ["COMMANDS", "Command", "CommandFlag"]

_SKELETON = "a .bpk or .safetensors that your Burn program saved from the freshly initialised model"


class CommandFlag(NamedTuple):
    """One argument of one command: its spellings, and what argparse is told of it."""

    names: tuple[str, ...]
    settings: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        name: as typed.
        summary: one phrase, for the list of commands.
        about: what happens by default; the head of its help.
        examples: without the program's name.
        module: what carries it out, by a function `run(Arguments) -> int`; imported when it is the one that runs.
        flags: its own arguments, positional ones first.
        groups: the options of a conversion it takes.
        actions: names and summaries of what it can do, each with its own arguments; the first is the default.
    """

    name: str
    summary: str
    about: str
    examples: tuple[str, ...]
    module: str
    flags: tuple[CommandFlag, ...] = ()
    groups: tuple[OptionGroup, ...] = ()
    actions: tuple[tuple[str, str, tuple[CommandFlag, ...]], ...] = ()


def _flag(*names: str, **settings: object) -> CommandFlag:
    return CommandFlag(names, settings)


_SOURCE = _flag(
    "source",
    metavar="SRC",
    help="a .pt, .pth, .bin, .ckpt, .safetensors or .bpk file, an *.index.json, or a folder with one of these",
)

_SOURCES = _flag(
    "source",
    metavar="SRC",
    nargs="+",
    help="a .pt, .pth, .bin, .ckpt, .safetensors or .bpk file, an *.index.json, or a folder with one of these; of several, "
    "the tensors are joined (see --prefix)",
)

COMMANDS = (
    Command(
        name="inspect",
        summary="list what is in a checkpoint",
        about="List every tensor by its full path and name the root that convert would use. Reads no tensor data and runs\n"
        "nothing in the file; classes and functions it names are listed.",
        examples=(
            "inspect model.pt",
            "inspect Llama-3.2-1B/ --json --sha256",
            "inspect last.ckpt --value hyper_parameters",
        ),
        module="importer.cli.inspect_command",
        flags=(
            _SOURCE,
            _flag("--json", action="store_true", help="print one JSON object instead of a tree"),
            _flag(
                "--value",
                metavar="NAME",
                help="print one value with everything below it, as JSON: hyper_parameters ('' for all)",
            ),
            _flag("--sha256", action="store_true", help="add the SHA-256 of every tensor's elements (reads them)"),
            _flag("--all", action="store_true", help="list every layer instead of folding repeated ones"),
        ),
        groups=(OptionGroup.READING,),
    ),
    Command(
        name="convert",
        summary="convert a checkpoint for Burn",
        about="Convert SRC to OUT; the format follows OUT's extension (.bpk or .safetensors). By default the recipe is found from\n"
        "config.json or the tensor names, nothing is written if a tensor is missing or has an error, and an existing OUT\n"
        "is left alone.",
        examples=(
            "convert Llama-3.2-1B/ llama.bpk",
            "convert Llama-3.2-1B/ llama.bpk --merge my-lora/ --merge style.safetensors=0.5",
            "convert encoder.pt head.pt out.bpk --prefix encoder --prefix head --recipe my-model.yaml",
            "convert model.pt model.safetensors --recipe my-model.yaml --target fresh.bpk --report report.json",
        ),
        module="importer.cli.convert_command",
        flags=(
            _SOURCES,
            _flag("output", metavar="OUT", help="the file to write: .bpk or .safetensors"),
            _flag("--report", metavar="FILE", help="write the whole report, as JSON (or Markdown for a .md FILE)"),
            _flag("--format", default="text", choices=("text", "json", "markdown"), help="what stdout gets"),
        ),
        groups=(OptionGroup.MAPPING, OptionGroup.READING, OptionGroup.OUTPUT, OptionGroup.POLICY),
    ),
    Command(
        name="recipes",
        summary="list, show and check recipes",
        about="List the built-in recipes (the default), show one, or check a file of your own: all faults at once, with line and\n"
        "column.",
        examples=("recipes show llama", "recipes check my-model.yaml"),
        module="importer.cli.recipes_command",
        actions=(
            ("list", "one line for each built-in recipe", ()),
            ("show", "print a built-in recipe", (_flag("name", metavar="NAME"),)),
            ("check", "report every fault of a recipe file", (_flag("name", metavar="FILE"),)),
        ),
    ),
    Command(
        name="suggest",
        summary="draft a recipe for your own Burn model",
        about="Draft a recipe that turns SRC into what FILE names, by aligning names, shapes and order. What they do not settle is\n"
        "marked `check:`. Ends with 1 if a parameter of the target is left without a source.",
        examples=("suggest model.pt --target fresh.bpk -o my-model.yaml",),
        module="importer.cli.suggest_command",
        flags=(
            _SOURCE,
            _flag("--target", required=True, dest="skeleton", metavar="FILE", help=_SKELETON),
            _flag("-o", "--output", dest="recipe_file", metavar="FILE", help="write the recipe here (default: stdout)"),
            _flag("--overwrite", action="store_true", help="replace an existing recipe"),
        ),
        groups=(OptionGroup.READING,),
    ),
    Command(
        name="template",
        summary="print the target section for your own Burn model",
        about="Print a recipe's `target` section that declares exactly the parameters of FILE. Layers that a file cannot tell apart\n"
        "are named in comments.",
        examples=("template fresh.bpk",),
        module="importer.cli.template_command",
        flags=(_flag("skeleton", metavar="FILE", help=_SKELETON),),
    ),
    Command(
        name="rust",
        summary="write the Rust module that loads a conversion",
        about="Print a Rust file for Burn: structs with the names and nesting of what convert makes of SRC, a config with SRC's\n"
        "numbers, init and a loader. No forward pass: weights do not tell it. Without SRC, from --target FILE, or from\n"
        "--recipe NAME with --set for each number.",
        examples=(
            "rust Llama-3.2-1B/ -o src/llama.rs",
            "rust --target fresh.bpk --struct MyModel",
            "rust --recipe minilm --set hidden_size=384 --set num_hidden_layers=6 --set vocab_size=30522",
        ),
        module="importer.cli.rust_command",
        flags=(
            _flag("rust_source", nargs="?", metavar="SRC", help="as for convert"),
            _flag("--struct", default="", metavar="NAME", help="name of the root struct (default: after the recipe)"),
            _flag(
                "--set",
                dest="numbers",
                action="append",
                default=[],
                metavar="KEY=VALUE",
                help="a field of config.json, where there is no SRC; may be repeated",
            ),
            _flag("-o", "--output", dest="rust_file", metavar="FILE", help="write the file here (default: stdout)"),
            _flag("--overwrite", action="store_true", help="replace an existing FILE"),
            _flag("--dry-run", action="store_true", help="say what would be written, and write nothing"),
        ),
        groups=(OptionGroup.MAPPING, OptionGroup.READING),
    ),
    Command(
        name="explain",
        summary="show what happens to one tensor",
        about="Show each step from the bytes in SRC to the bytes in the output: where they lie, which rules fire, how the layout\n"
        "changes. NAME is a source's or an output's. Ends with 1 if the tensor does not reach the output, and says why.",
        examples=(
            "explain Llama-3.2-1B/ model.layers.0.self_attn.q_proj.weight",
            "explain model.pt fc.weight --recipe my-model.yaml",
        ),
        module="importer.cli.explain_command",
        flags=(
            _SOURCE,
            _flag("name", metavar="NAME", help="name of a tensor in the source or in the output"),
        ),
        groups=(OptionGroup.MAPPING, OptionGroup.READING),
    ),
)
