"""What the process of one command is set up with: how it ends when told to, and no search for garbage.

Not here: exit codes and messages of other failures (`importer.cli`).
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "one_command"]

_Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_SAME_SECONDS = 2.0
"""One press of Ctrl-C may arrive twice, from the terminal and from a program in between."""


class Terminated(KeyboardInterrupt):
    """A signal that ends the process, as an exception, so that what is half written is thrown away as it is after Ctrl-C.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def one_command() -> Iterator[None]:
    """Run one command: signals raise `Terminated`, and the collector of reference cycles rests.

    A signal that is ignored, as `nohup` has it, stays so. After the first one the process tidies up; another one, two
    seconds later, ends it at once, and the next run tidies up.

    A listing or plan of 100,000 tensors lives until the command ends. The collector would go through it again and again,
    a quarter of the time of a conversion, and find nothing.

    Raises:
        Terminated: the process was told to end.
    """
    # numpy starts threads for multiplying matrices as it is imported; none is multiplied here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collects = gc.isenabled()
    gc.disable()
    before = _handled() if threading.current_thread() is threading.main_thread() else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if collects:
            gc.enable()


def _handled() -> dict[int, _Handler]:
    """Have signals raise; return what they did before."""
    told_at: list[float] = []

    def tell(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as the system calls it
        now = time.monotonic()
        if not told_at:
            told_at.append(now)
            raise Terminated(number)
        if now - told_at[0] > _SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    mine: dict[int, _Handler] = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        # None: set by a program around us that is not Python, and not to be put back.
        if handler not in {signal.SIG_IGN, None}:
            mine[number] = handler
    for number in mine:
        signal.signal(number, tell)
    return mine
