"""The program: `importer`, and `python -m importer` for environments without the console script.

Until the command is set up to tidy up after Ctrl-C, a signal simply ends the process: nothing has been written, and nobody
needs a traceback of imports. Not here: the command line (`importer.cli`).
"""

import signal
import threading

__all__ = ["main"]


def main() -> int:
    """Run the command line and return its exit code."""
    in_charge = threading.current_thread() is threading.main_thread()
    if in_charge and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from importer.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
