"""The command line: one function from arguments to an exit code, and the funnel every failure goes through.

Results go to stdout, messages to stderr. A failure a user can cause is one paragraph without a traceback; anything else
is an internal error and says how to report it. Not here: the commands themselves, one module each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TextIO

from importer.cli.arguments import Arguments
from importer.cli.commands import COMMANDS
from importer.cli.parser import parse
from importer.cli.process import Terminated, one_command
from importer.errors import ImporterError, LimitError, WriteError, printable

__all__ = ["main"]

_INTERNAL = 70
_BROKEN_PIPE = 141
_BY_SIGNAL = 128
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done · 1 the report forbids the conversion · 2 usage or recipe · 3 source refused · 4 cannot write · 70 internal.
    """
    _prepare_streams()
    try:
        arguments = parse(words)
    finally:
        # Help and usage errors end the process; whether they can be read decides nothing.
        _flush()
    try:
        with one_command():
            code = _run(arguments)
            sys.stdout.flush()
    except ImporterError as error:
        return _tell(error)
    except KeyboardInterrupt as interrupt:
        return _tell_interrupted(interrupt)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not worth a message.
        _abandon(sys.stdout)
        return _BROKEN_PIPE
    except MemoryError:
        return _tell(WriteError("there is not enough memory", how="Use fewer --workers, or a machine with more of it."))
    except Exception as error:  # noqa: BLE001 - the one funnel: everything else that escapes is a bug of ours
        if (behind := _interrupt_behind(error)) is not None:
            return _tell_interrupted(behind)
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
            _abandon(sys.stdout)
            what = f"the standard output cannot be written: {error.strerror}"
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


def _flush() -> None:
    """Write out what was printed; a stream that cannot be written is given up."""
    _flush_one(sys.stdout)
    _flush_one(sys.stderr)


def _flush_one(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        _abandon(stream)


def _abandon(stream: TextIO) -> None:
    """Send what is still buffered nowhere, so that flushing at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(*lines: str) -> None:
    """Print a message; one that nobody can read does not change how the command ends."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", file=sys.stderr)
    _flush()


def _tell(error: ImporterError) -> int:
    """Print the error, escaped line by line, and return its exit code."""
    first, *rest = str(error).splitlines()
    if isinstance(error, LimitError):
        rest.append(f"--limit {error.limit}=VALUE changes the bound.")
    _say(f"importer: {printable(first)}", *map(printable, rest))
    return error.exit_code


def _tell_interrupted(interrupt: KeyboardInterrupt) -> int:
    """Say what is at the target now, which whoever wrote there has put into the exception."""
    number = interrupt.number if isinstance(interrupt, Terminated) else signal.SIGINT
    left = printable(str(interrupt.args[0])) if interrupt.args else "nothing was written"
    _say(f"importer: {'interrupted' if number == signal.SIGINT else 'terminated'}; {left}")
    return _BY_SIGNAL + number


def _interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that an error was made of, if it was.

    Before 3.12 Python turns whatever is raised while a class is made into a RuntimeError, and imports make many classes.
    """
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen


def _tell_internal(error: Exception, arguments: Arguments) -> int:
    """Print what a bug report needs; the traceback only with --debug."""
    if arguments.debug:
        raise error
    kind = type(error).__name__
    _say(
        f"importer: internal error ({kind}: {printable(str(error))}). This is a bug: please report it with the output "
        "of the same command and --debug."
    )
    return _INTERNAL
