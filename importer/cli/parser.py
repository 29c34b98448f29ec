"""From the table of commands and the declared options to one parser, and from a command line to its arguments.

Standard library only, and nothing of a command is imported: `--help` must not be slow. Not here: the table
(`importer.cli.commands`), the options (`importer.options`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import fields

from importer._version import __version__
from importer.cli.arguments import Arguments
from importer.cli.commands import COMMANDS, Command, CommandFlag
from importer.errors import UsageError
from importer.options import FLAGS, Flag, OptionGroup, Options

__all__ = ["build_parser", "parse"]


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
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for command in COMMANDS:
        _fill(
            commands.add_parser(
                command.name,
                help=command.summary,
                description=command.about,
                epilog="examples:\n" + "\n".join(f"  importer {example}" for example in command.examples),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            ),
            command,
        )
    return parser


def _fill(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add a command's own flags, its groups of options, and its actions."""
    _add_flags(parser, command.flags)
    for group in command.groups:
        _add_options(parser.add_argument_group(group.value), group)
    if command.actions:
        parser.set_defaults(action=command.actions[0][0])
        actions = parser.add_subparsers(dest="action", metavar="|".join(name for name, _, _ in command.actions))
        for name, summary, flags in command.actions:
            _add_flags(actions.add_parser(name, help=summary), flags)


def _add_flags(parser: argparse.ArgumentParser, flags: Sequence[CommandFlag]) -> None:
    for flag in flags:
        parser.add_argument(*flag.names, **flag.settings)  # type: ignore[arg-type] # the table has argparse's own names


def _add_options(parser: argparse._ArgumentGroup, group: OptionGroup) -> None:  # argparse has no public name for it
    """Add the flags of a group; what is not given stays out of the result, so that `Options` decides the default."""
    for one in fields(Options):
        flag = FLAGS[one.name]
        if flag.group is group:
            parser.add_argument(
                f"--{(flag.name or one.name).replace('_', '-')}",
                dest=one.name,
                default=argparse.SUPPRESS,
                help=flag.about,
                **_settings(flag, one.default),  # type: ignore[arg-type] # argparse's own names
            )


def _settings(flag: Flag, default: object) -> dict[str, object]:
    if isinstance(default, bool):
        return {"action": "store_false" if default else "store_true"}
    settings: dict[str, object] = {"action": "append" if flag.joined else "store"}
    if flag.choices is not None:
        settings["choices"] = tuple(member.value for member in flag.choices)
        settings["type"] = flag.canonical
    if flag.metavar is not None:
        settings["metavar"] = flag.metavar
    if flag.parse is not None:
        settings["type"] = _checked(flag.parse)
    return settings


def _checked(parse_value: Callable[[str], object]) -> Callable[[str], object]:
    """Return the function with its complaint made one of argparse's."""

    def checked(text: str) -> object:
        try:
            return parse_value(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"{error.what}: {error.how}") from None

    return checked
