"""The ``msbgen`` command, and ``python -m msbgen``."""

import os
import signal
import sys

_WORDS = {signal.SIGINT: b"interrupted", signal.SIGTERM: b"terminated"}


def command() -> int:
    """Run the command line; from the first moment a signal ends it with a sentence."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, 0)):
        if signal.getsignal(number) == handler:
            signal.signal(number, _leave)
    from msbgen.cli.main import command

    return command()


def _leave(number: int, frame: object) -> None:
    """End at once: nothing has begun yet that would have to be cleaned up."""
    os.write(2, b"msbgen: %s; no file was left half written.\n" % _WORDS[signal.Signals(number)])
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(command())
