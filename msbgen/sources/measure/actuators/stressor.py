"""The process that presses on the shared cache and memory, or reports how it is pressed.

It is run as a file and imports only numpy, so that it starts quickly::

    python stressor.py stream|gather FD PARENT BYTES BYTES_PER_SECOND

``stream`` adds 1 to a word of each cache line, line after line.  ``gather`` reads lines in random
order; its speed is sensitive to what others do.  Both write two whole numbers into the shared
memory FD: bytes of the lines that were visited so far, and the size of the working set once it is
in use.  Between two pieces of work the process spins, so that its core neither sleeps nor changes
its clock.  It ends when its parent does.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable

import numpy as np

LINE = 64  # bytes of a cache line
_WORDS = LINE // 8
# Lines of a piece of work: at most that many, and those of this time [s] at the wanted speed.
_MOST, _LEAST, _PIECE = 4096, 16, 2e-4
# A stressor that was held up makes up for at most this time [s].
_MADE_UP = 0.005
# Pieces of work between two looks at the parent.
_LOOK = 1024
# Full-period generator of line numbers modulo a power of two: x -> 5 x + 1.
_FACTOR, _STEP = 5, 1


def streamer(lines: np.ndarray, piece: int) -> Callable[[], int]:
    """A function that changes the next lines and returns how many."""
    at = 0

    def work() -> int:
        nonlocal at
        part = lines[at : at + piece]
        np.add(part, 1, out=part)
        at = (at + piece) if at + piece < len(lines) else 0
        return len(part)

    return work


def gatherer(lines: np.ndarray, piece: int) -> Callable[[], int]:
    """A function that reads lines in random order and returns how many; 2^k lines are used."""
    mask = (1 << (len(lines).bit_length() - 1)) - 1
    places = np.random.default_rng(0).integers(0, mask + 1, piece)
    read = np.empty(piece, lines.dtype)

    def work() -> int:
        np.multiply(places, _FACTOR, out=places)
        np.add(places, _STEP, out=places)
        np.bitwise_and(places, mask, out=places)
        lines.take(places, out=read, mode="clip")
        return piece

    return work


def press(kind: str, counts: np.ndarray, parent: int, size: int, speed: float) -> None:
    """Work on `size` bytes at `speed` [bytes/s], 0 for the highest, until the parent ends."""
    lines = np.zeros((max(size // LINE, 1), _WORDS), np.int64)[:, 0]
    lines += 1  # every page is in memory from now on
    wanted = int(speed * _PIECE / LINE) if speed else _MOST
    piece = max(_LEAST, min(_MOST, wanted, len(lines)))
    work = (gatherer if kind == "gather" else streamer)(lines, piece)
    counts[1] = len(lines) * LINE
    clock, moved, due = time.perf_counter, 0, time.perf_counter()
    while os.getppid() == parent:
        for _ in range(_LOOK):
            visited = work() * LINE
            moved += visited
            counts[0] = moved
            if speed:
                due = max(due + visited / speed, clock() - _MADE_UP)
                while clock() < due:
                    pass


if __name__ == "__main__":
    fd, parent, size = map(int, sys.argv[2:5])
    shared = np.frombuffer(mmap.mmap(fd, 16), np.int64)
    press(sys.argv[1], shared, parent, size, float(sys.argv[5]))
