"""Functions in processes of their own, to be killed or told what they may not do.

A fork has everything imported and compiled already, which a new interpreter spends a second on.
"""

import io
import os
import signal
import sys
import traceback
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

from numba import config

ROOT = Path(__file__).parents[1]


def forked(work):
    """Run a function in a process of its own; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work() or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def status_of(pid):
    """Exit status of a process, minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def beside(work):
    """Run a function beside a block: its process, and the lines that it says, to its end.

    The function is given what it says lines with.  It is killed where it lives longer than the
    block.
    """
    received, spoken = os.pipe()

    def speak():
        os.close(received)
        work(lambda line: os.write(spoken, f"{line}\n".encode()))

    process = forked(speak)
    os.close(spoken)
    try:
        with open(received, encoding="utf-8") as lines:
            yield process, (line.removesuffix("\n") for line in lines)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def anew(code, *, compiled=True, missing=()):
    """Lines that code prints where this package is loaded anew, its kernels not used before.

    Without compilation they are plain Python; what is missing cannot be imported.
    """

    def work(say):
        if not compiled:
            config.DISABLE_JIT = True
        ours = (str(ROOT / "msbgen"), str(ROOT / "tests"))
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(ours):
                del sys.modules[name]
        sys.modules.update(dict.fromkeys(missing))
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, {"__name__": "anew"})
        for line in printed.getvalue().splitlines():
            say(line)
        say("done")

    with beside(work) as (_, lines):
        printed = list(lines)
    assert printed[-1:] == ["done"], "it failed: its traceback is above"
    return printed[:-1]
