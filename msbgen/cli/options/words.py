"""Words to the user: results to stdout, messages to stderr, a line of progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msbgen.core.machine import OnProgress

# Characters that a terminal obeys, as escapes: names come out of files that strangers wrote.
_CONTROLS = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


class UsageError(Exception):
    """The command line asks for something that cannot be done; the message says what to change."""


def show(text: object) -> None:
    """Print a result, to stdout."""
    _to_stdout(lambda: print(str(text).translate(_CONTROLS)))


def show_table(rows: Iterable[Sequence[object]]) -> None:
    """Print rows as CSV, to stdout."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    show(text.getvalue().removesuffix("\n"))


def flush() -> None:
    """See that all results are where they should be."""
    _to_stdout(lambda: sys.stdout.flush())


def _to_stdout(write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        error.filename = "stdout"  # which file it was, the system does not say
        raise


def say(message: object) -> None:
    """Print a message, to stderr, in the place of a progress line."""
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    with suppress(OSError):  # nobody listens
        print(f"{clear}msbgen: {str(message).translate(_CONTROLS)}", file=sys.stderr)


class Progress:
    """A line on stderr that counts up, on a terminal only, and is gone when the work is done."""

    def __init__(self, label: str):
        self._label = label
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> OnProgress:
        return self._step

    def _step(self, done: int, total: int) -> None:
        if self._shown:
            share = 100 * done // max(total, 1)
            print(f"\r{self._label}: {share:3d} %", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Messages:
    """While it lasts, what the libraries log and warn of is said as the command says all else."""

    def __enter__(self) -> None:
        import logging
        import warnings

        class Saying(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                say(f"{record.levelname.lower()}: {record.getMessage()}")

        def show_warning(message: object, *_: object) -> None:
            say(f"warning: {message}")

        self._handler = Saying(logging.WARNING)
        logging.getLogger().addHandler(self._handler)
        self._shown_by = warnings.showwarning
        warnings.showwarning = show_warning

    def __exit__(self, *_: object) -> None:
        import logging
        import warnings

        logging.getLogger().removeHandler(self._handler)
        warnings.showwarning = self._shown_by
