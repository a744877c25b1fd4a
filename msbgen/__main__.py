"""The ``msbgen`` command, and ``python -m msbgen``."""

import os
import signal
import sys

_MESSAGES = {signal.SIGINT: b"interrupted", signal.SIGTERM: b"terminated"}


def command() -> int:
    """Run the command line; from the start, a signal ends it with a message."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, 0)):
        if signal.getsignal(number) == handler:
            signal.signal(number, _leave)
    from msbgen.cli.main import command

    return command()


def _leave(number: int, frame: object) -> None:
    """End at once: before the command line runs, nothing has to be cleaned up."""
    os.write(2, b"msbgen: %s; no file was left half written.\n" % _MESSAGES[signal.Signals(number)])
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(command())
