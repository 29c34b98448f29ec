"""The command line: one function from arguments to an exit code, and the funnel every failure goes through.

Results go to stdout, messages to stderr. A failure a user can cause is one paragraph without a traceback; anything else
is an internal error and says how to report it. Not here: the commands themselves, one module each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from importer.cli.arguments import Arguments, parse
from importer.errors import ImporterError, LimitError, printable

__all__ = ["main"]

_INTERNAL = 70
_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done · 1 the report forbids the conversion · 2 usage or recipe · 3 source refused · 4 cannot write · 70 internal.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A C locale must not turn a report into a UnicodeEncodeError.
            stream.reconfigure(errors="backslashreplace")
    options = parse(arguments)
    try:
        code = options.run(options)
        sys.stdout.flush()
    except ImporterError as error:
        return _tell(error)
    except KeyboardInterrupt:
        print("importer: interrupted; nothing was left at the target", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not worth a message, and flushing at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one funnel: everything else that escapes is a bug of ours
        return _tell_internal(error, options)
    return code


def _tell(error: ImporterError) -> int:
    """Print the error, escaped line by line, and return its exit code."""
    first, *rest = str(error).splitlines()
    if isinstance(error, LimitError):
        rest.append(f"--limit {error.limit}=VALUE changes the bound.")
    print(f"importer: {printable(first)}", *map(printable, rest), sep="\n", file=sys.stderr)
    return error.exit_code


def _tell_internal(error: Exception, options: Arguments) -> int:
    """Print what a bug report needs; the traceback only with --debug."""
    if options.debug:
        raise error
    kind = type(error).__name__
    print(
        f"importer: internal error ({kind}: {printable(str(error))}). This is a bug: please report it with the output "
        "of the same command and --debug.",
        file=sys.stderr,
    )
    return _INTERNAL
