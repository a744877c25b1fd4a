"""Output to the user: results to stdout at the end, messages and progress to stderr at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msbgen.core.machine import OnProgress

# Time between two lines of progress if stderr is no terminal [s].
_LINE_EVERY = 60.0
# Results that are not printed yet.
_RESULTS: list[str] = []


class UsageError(Exception):
    """The command line is inconsistent or impossible; the message names the change."""


class PartialResultError(Exception):
    """Some results are written and others are missing; the message names those."""


def show(text: object) -> None:
    """Add a result to stdout, which :func:`print_results` prints once files and verdict are there.

    Names from files do not control the terminal.
    """
    from msbgen.core.errors import printable

    _RESULTS.append(printable(text, keep="\n\t"))


def show_lines(lines: Iterable[object]) -> None:
    """Add results of one line each to stdout: a name from a file makes no second line."""
    from msbgen.core.errors import printable

    for line in lines:
        show(printable(line, keep="\t"))


def show_table(rows: Iterable[Sequence[object]]) -> None:
    """Add rows to stdout, as CSV."""
    import csv
    import io

    from msbgen.data.tables import cell_of

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(cell_of, row) for row in rows)
    show(text.getvalue().removesuffix("\n"))


def print_results() -> None:
    """Print the results; a closed stdout costs the text only, a full disk raises OSError."""
    results = _RESULTS.copy()
    _RESULTS.clear()
    try:
        for text in results:
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough
        pass
    except OSError as error:
        error.filename = "stdout"  # the system's error does not name the file
        raise


def print_message(message: object) -> None:
    """Print a message to stderr, over a progress line if there is one."""
    from msbgen.core.errors import MESSAGE, printable

    clear = "\r\033[K" if sys.stderr.isatty() else ""
    with suppress(OSError):  # stderr is closed
        print(f"{clear}msbgen: {printable(message, MESSAGE)}", file=sys.stderr)


class Progress:
    """Progress on stderr: on a terminal one line, removed at the end; else a line a minute."""

    def __init__(self, label: str):
        self._label = label
        self._on_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _LINE_EVERY

    def __enter__(self) -> OnProgress:
        return self._step

    def _step(self, done: int, total: int) -> None:
        share = 100 * done // max(total, 1)
        if self._on_terminal:
            print(f"\r{self._label}: {share:3d} %", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            print_message(f"{self._label}: {share} % ({done} of {total})")
            self._next = time.monotonic() + _LINE_EVERY

    def __exit__(self, *_: object) -> None:
        if self._on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Messages:
    """Context in which log records and warnings of libraries are printed as messages, once each.

    Several fits of one file give the same warnings of it.
    """

    def __enter__(self) -> None:
        import logging
        import warnings

        printed: set[str] = set()

        def print_once(message: str) -> None:
            if message not in printed:
                printed.add(message)
                print_message(message)

        class PrintingHandler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                print_once(f"{record.levelname.lower()}: {record.getMessage()}")

        def show_warning(message: object, *_: object) -> None:
            print_once(f"warning: {message}")

        self._handler = PrintingHandler(logging.WARNING)
        logging.getLogger().addHandler(self._handler)
        self._showwarning_before = warnings.showwarning
        warnings.showwarning = show_warning

    def __exit__(self, *_: object) -> None:
        import logging
        import warnings

        logging.getLogger().removeHandler(self._handler)
        warnings.showwarning = self._showwarning_before
