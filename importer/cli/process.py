"""What the process of one command is set up with: how it ends when told to, and no search for garbage.

Not here: exit codes and messages of other failures (`importer.cli`).
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "one_command"]


class Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception, so that what is half written is thrown away as it is after Ctrl-C."""


@contextmanager
def one_command() -> Iterator[None]:
    """Run one command: SIGTERM raises `Terminated`, and the collector of reference cycles rests.

    A listing or plan of 100,000 tensors lives until the command ends. The collector would go through it again and again,
    a quarter of the time of a conversion, and find nothing.

    Raises:
        Terminated: the process was told to end.
    """
    # numpy starts threads for multiplying matrices as it is imported; none is multiplied here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collects = gc.isenabled()
    gc.disable()
    handles = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGTERM, _terminate) if handles else None
    try:
        yield
    finally:
        if handles:
            signal.signal(signal.SIGTERM, handler)
        if collects:
            gc.enable()


def _terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as the system calls it
    raise Terminated
