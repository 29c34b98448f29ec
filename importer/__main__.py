"""The program: `importer`, and `python -m importer` for environments without the console script.

Until the command is set up to tidy up after Ctrl-C, the signal simply ends the process: nothing has been written, and nobody
needs a traceback of imports. Not here: the command line (`importer.cli`).
"""

# The module behind `signal`, which imports nothing: the sooner this is done the better.
import _signal  # type: ignore[import-not-found]

__all__ = ["main"]

try:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
except ValueError:
    # Not the main thread, which alone has to do with signals.
    pass


def main() -> int:
    """Run the command line and return its exit code."""
    from importer.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
