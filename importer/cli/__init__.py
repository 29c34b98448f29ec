"""The command line: one function from arguments to an exit code, and the funnel every failure goes through.

Results go to stdout, messages to stderr. A failure a user can cause is one paragraph without a traceback; anything else
is an internal error and says how to report it. Not here: the commands themselves, one module each.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from importer.cli.arguments import Arguments
from importer.cli.commands import COMMANDS
from importer.cli.parser import parse
from importer.cli.process import Terminated, one_command
from importer.errors import ImporterError, LimitError, WriteError, printable

__all__ = ["main"]

_INTERNAL = 70
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TERMINATED = 143
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done · 1 the report forbids the conversion · 2 usage or recipe · 3 source refused · 4 cannot write · 70 internal.
    """
    _prepare_streams()
    arguments = parse(words)
    try:
        with one_command():
            code = _run(arguments)
            sys.stdout.flush()
    except ImporterError as error:
        return _tell(error)
    except KeyboardInterrupt as interrupt:
        told = isinstance(interrupt, Terminated)
        print(f"importer: {'terminated' if told else 'interrupted'}; nothing was left at the target", file=sys.stderr)
        return _TERMINATED if told else _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not worth a message.
        _abandon_stdout()
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one funnel: everything else that escapes is a bug of ours
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
            _abandon_stdout()
            what = f"the standard output or a temporary file cannot be written: {error.strerror}"
            return _tell(WriteError(what, how="Free some space, or write elsewhere."))
        return _tell_internal(error, arguments)
    return code


def _run(arguments: Arguments) -> int:
    """Run the command; its module is imported now."""
    command = next(command for command in COMMANDS if command.name == arguments.command)
    module = import_module(command.module)
    code: int = module.run(arguments)
    return code


def _prepare_streams() -> None:
    """Make both streams safe to print to: they may be closed, or unable to show every character."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by the caller. Its number must not go to a file we open, nor may printing fail.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open as long as the process
        elif hasattr(getattr(sys, name), "reconfigure"):
            # A C locale must not turn a report into a UnicodeEncodeError.
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _abandon_stdout() -> None:
    """Send what is still buffered nowhere, so that flushing at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(error: ImporterError) -> int:
    """Print the error, escaped line by line, and return its exit code."""
    first, *rest = str(error).splitlines()
    if isinstance(error, LimitError):
        rest.append(f"--limit {error.limit}=VALUE changes the bound.")
    print(f"importer: {printable(first)}", *map(printable, rest), sep="\n", file=sys.stderr)
    return error.exit_code


def _tell_internal(error: Exception, arguments: Arguments) -> int:
    """Print what a bug report needs; the traceback only with --debug."""
    if arguments.debug:
        raise error
    kind = type(error).__name__
    print(
        f"importer: internal error ({kind}: {printable(str(error))}). This is a bug: please report it with the output "
        "of the same command and --debug.",
        file=sys.stderr,
    )
    return _INTERNAL
