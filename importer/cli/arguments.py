"""Every command, argument and option, with its help. Standard library only: `--help` must not import anything heavy.

Not here: what the commands do; each is imported when it is the one that runs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from importer._version import __version__

__all__ = ["Arguments", "build_parser", "parse"]

_SKELETON = "a .bpk or .safetensors that your Burn program saved from the freshly initialised model"
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class Arguments(argparse.Namespace):
    """Parsed arguments with names and types; each command reads those of its own parser."""

    run: Callable[[Arguments], int]
    debug: bool
    source: str
    output: str
    recipe: str
    target: str | None
    root: str | None
    dtype: str
    adapter: str
    param_ids: str
    report: str | None
    format: str
    dry_run: bool
    overwrite: bool
    allow_missing: bool
    strict: bool
    only: str | None
    shard_size: int | None
    workers: int | None
    all: bool
    json: bool
    sha256: bool
    sparse: str
    quantized: str
    limit: list[tuple[str, float]]
    name: str
    action: str
    skeleton: str
    recipe_file: str | None


def parse(arguments: Sequence[str] | None) -> Arguments:
    """Return the parsed arguments; prints help or a usage error and exits as argparse does (code 2)."""
    return build_parser().parse_args(arguments, namespace=Arguments())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="importer",
        description="Convert PyTorch and Hugging Face checkpoints into files a Burn model loads, without PyTorch.",
        epilog="Exit codes: 0 done, 1 the report forbids it, 2 usage or recipe, 3 source refused, 4 cannot write, "
        "70 internal error.",
    )
    parser.add_argument("--version", action="version", version=f"importer {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an internal error")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_inspect(commands)
    _add_convert(commands)
    _add_recipes(commands)
    _add_suggest(commands)
    _add_template(commands)
    _add_explain(commands)
    return parser


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for what add_subparsers returns


def _command(
    commands: Commands[argparse.ArgumentParser], name: str, summary: str, description: str, examples: Sequence[str]
) -> argparse.ArgumentParser:
    """Add one command whose help opens with what happens by default and ends with examples."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog="examples:\n" + "\n".join(f"  importer {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_inspect(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "inspect",
        "list what is in a checkpoint",
        "List every tensor by its full path and name the root that convert would use. Reads no tensor data and runs\n"
        "nothing in the file; classes and functions it names are listed.",
        ("inspect model.pt", "inspect Llama-3.2-1B/ --json --sha256"),
    )
    _add_source(parser)
    parser.add_argument("--root", metavar="KEY", help="dotted key below which the weights lie (default: found)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a tree")
    parser.add_argument("--sha256", action="store_true", help="add the SHA-256 of every tensor's elements (reads them)")
    parser.add_argument("--all", action="store_true", help="list every layer instead of folding repeated ones")
    _add_reading_options(parser, quantized="report")
    parser.set_defaults(run=_run_inspect)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SRC",
        help="a .pt, .pth, .bin, .ckpt, .safetensors or .bpk file, an *.index.json, or a folder with one of these",
    )


def _add_reading_options(parser: argparse.ArgumentParser, *, quantized: str) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--sparse", default="report", choices=("report", "dense"),
        help="sparse tensors: report them only, or read them as dense ones",
    )  # fmt: skip
    group.add_argument(
        "--quantized", default=quantized, choices=("report", "integers", "dequantize"),
        help="quantised weights: real values, codes (NAME.int_repr with NAME.scale and NAME.zero_point), or report them only "
        f"(default: {quantized})",
    )  # fmt: skip
    group.add_argument(
        "--limit", action="append", default=[], type=_limit, metavar="NAME=VALUE",
        help="raise or lower a bound on untrusted input, as a message names it (max_dense_bytes=8GB)",
    )  # fmt: skip


def _add_convert(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "convert",
        "convert a checkpoint for Burn",
        "Convert SRC to OUT; the format follows OUT's extension (.bpk or .safetensors). By default the recipe is found from\n"
        "config.json or the tensor names, nothing is written if a tensor is missing or has an error, and an existing OUT\n"
        "is left alone.",
        (
            "convert Llama-3.2-1B/ llama.bpk",
            "convert model.pt model.safetensors --recipe my-model.yaml --target fresh.bpk --report report.json",
        ),
    )
    _add_source(parser)
    parser.add_argument("output", metavar="OUT", help="the file to write: .bpk or .safetensors")
    _add_mapping_options(parser)
    _add_reading_options(parser, quantized="dequantize")
    _add_output_options(parser)
    _add_policy_options(parser)
    parser.set_defaults(run=_run_convert)


def _add_mapping_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what becomes what")
    group.add_argument(
        "--recipe", default="auto", metavar="auto|none|NAME|FILE", help="a built-in recipe, a YAML file, or neither"
    )
    group.add_argument(
        "--target", metavar="FILE", help="a .bpk or .safetensors saved from the fresh Burn model: names, shapes, dtypes"
    )
    group.add_argument("--root", metavar="KEY", help="dotted key below which the weights lie (default: found)")
    group.add_argument(
        "--dtype", default="keep", choices=("keep", "f32", "f16", "bf16", "half"),
        help="cast every float (half: f16, but BatchNorm stays f32)",
    )  # fmt: skip
    group.add_argument(
        "--adapter", default="auto", choices=("auto", "none", "burn", "torch"),
        help="layout change by module type: to Burn's, to torch's, or none",
    )  # fmt: skip
    group.add_argument("--only", metavar="REGEX", help="convert only output names that match")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--param-ids", default="none", choices=("none", "stable"),
        help="burnpack parameter ids: none, or derived from the names (a --target's own ids win)",
    )  # fmt: skip
    group.add_argument("--shard-size", type=_size, metavar="SIZE", help="split into files of at most SIZE (5GB)")
    group.add_argument("--overwrite", action="store_true", help="replace an existing OUT")
    group.add_argument(
        "--workers", type=_count, metavar="N", help="threads that read and write (default: the cores, at most 4)"
    )
    group.add_argument("--report", metavar="FILE", help="write the whole report, as JSON (or Markdown for a .md FILE)")
    group.add_argument("--format", default="text", choices=("text", "json", "markdown"), help="what stdout gets")
    group.add_argument("--dry-run", action="store_true", help="plan and report, write nothing")


def _add_policy_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("policy")
    group.add_argument("--allow-missing", action="store_true", help="leave out what the source does not give")
    group.add_argument("--strict", action="store_true", help="fail if a tensor of the source is unused")


def _add_recipes(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "recipes",
        "list, show and check recipes",
        "List the built-in recipes (the default), show one, or check a file of your own: all faults at once, with line and\n"
        "column.",
        ("recipes show llama", "recipes check my-model.yaml"),
    )
    parser.set_defaults(run=_run_recipes, action="list")
    actions = parser.add_subparsers(dest="action", metavar="list|show|check")
    actions.add_parser("list", help="one line for each built-in recipe")
    show = actions.add_parser("show", help="print a built-in recipe")
    show.add_argument("name", metavar="NAME")
    check = actions.add_parser("check", help="report every fault of a recipe file")
    check.add_argument("name", metavar="FILE")


def _add_suggest(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "suggest",
        "draft a recipe for your own Burn model",
        "Draft a recipe that turns SRC into what FILE names, by aligning names, shapes and order. What they do not settle is\n"
        "marked `check:`. Ends with 1 if a parameter of the target is left without a source.",
        ("suggest model.pt --target fresh.bpk -o my-model.yaml",),
    )
    _add_source(parser)
    parser.add_argument("--target", required=True, dest="skeleton", metavar="FILE", help=_SKELETON)
    parser.add_argument(
        "-o", "--output", dest="recipe_file", metavar="FILE", help="write the recipe here (default: stdout)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing recipe")
    parser.add_argument("--root", metavar="KEY", help="dotted key below which the weights lie (default: found)")
    parser.set_defaults(run=_run_suggest)


def _add_template(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "template",
        "print the target section for your own Burn model",
        "Print a recipe's `target` section that declares exactly the parameters of FILE. Layers that a file cannot tell apart\n"
        "are named in comments.",
        ("template fresh.bpk",),
    )
    parser.add_argument("skeleton", metavar="FILE", help=_SKELETON)
    parser.set_defaults(run=_run_template)


def _add_explain(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "explain",
        "show what happens to one tensor",
        "Show each step from the bytes in SRC to the bytes in the output: where they lie, which rules fire, how the layout\n"
        "changes. NAME is a source's or an output's. Ends with 1 if the tensor does not reach the output, and says why.",
        (
            "explain Llama-3.2-1B/ model.layers.0.self_attn.q_proj.weight",
            "explain model.pt fc.weight --recipe my-model.yaml",
        ),
    )
    _add_source(parser)
    parser.add_argument("name", metavar="NAME", help="name of a tensor in the source or in the output")
    _add_mapping_options(parser)
    parser.set_defaults(run=_run_explain)


def _run_inspect(arguments: Arguments) -> int:
    from importer.cli.inspect_command import run

    return run(arguments)


def _run_convert(arguments: Arguments) -> int:
    from importer.cli.convert_command import run

    return run(arguments)


def _run_recipes(arguments: Arguments) -> int:
    from importer.cli.recipes_command import run

    return run(arguments)


def _run_suggest(arguments: Arguments) -> int:
    from importer.cli.suggest_command import run

    return run(arguments)


def _run_template(arguments: Arguments) -> int:
    from importer.cli.template_command import run

    return run(arguments)


def _run_explain(arguments: Arguments) -> int:
    from importer.cli.explain_command import run

    return run(arguments)


def _size(text: str) -> int:
    """Parse a size such as `5GB`, `500MiB` or `1000000` into bytes."""
    return int(_number(text))


def _number(text: str) -> float:
    """Parse a positive number, with a unit of bytes or without."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?B)?", text.strip().upper())
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write it like 5GB or 500MiB")
    return float(match[1]) * _UNITS[match[2] or ""]


def _limit(text: str) -> tuple[str, float]:
    """Parse `NAME=VALUE`; the value is a size or a number."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is no bound: write it like max_tensors=1000000")
    return name, _number(value)


def _count(text: str) -> int:
    """Parse a positive whole number."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive whole number")
    return int(text)
