"""The ``msbgen`` command, from its arguments to its exit code.

Results go to stdout, messages and progress to stderr, progress only on a terminal.  Verbs catch
nothing: what goes wrong in them and below arrives here, where one table says which exit code it
has.  Whatever takes time to import is imported inside functions: ``--help`` answers at once, and
the signals are ours from the beginning.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import FrameType

DONE, INTERNAL, USAGE, BAD_DATA, NOT_CONVERGED, PARTIAL = range(6)
INTERRUPTED, TERMINATED = 130, 143

# The verbs by what they are for; each is a file beside this one with `add` and `run`.
GROUPS = {
    "the loop": (
        *("measure", "import", "check", "plan", "generate", "bound", "evaluate", "report"),
        *("platform", "batch", "demo"),
    ),
    "systems": ("realtime", "runtime", "machines", "kernels", "graph"),
}

# The exit code of a failure: that of the nearest ancestor of its type that stands here, else
# INTERNAL.  By name, so that nothing is imported to say what went wrong.
CODES = {
    "msbgen.core.errors.ProfileError": BAD_DATA,
    "msbgen.core.errors.MeasurementError": BAD_DATA,
    "msbgen.core.errors.ArgumentError": USAGE,
    "msbgen.cli.options.words.UsageError": USAGE,
    "msbgen.platform.record.RecordError": USAGE,
    "msbgen.measure.actuators.actuator.SettingError": USAGE,
    "msbgen.measure.sweep.requirements.RequirementError": USAGE,
    "msbgen.measure.sweep.profiles.IncompleteError": PARTIAL,
    "msbgen.batch.run.IncompleteError": PARTIAL,
    "msbgen.batch.pool.ClusterError": PARTIAL,
    "builtins.OSError": USAGE,
    "msbgen.bridge.solve.NotConvergedError": NOT_CONVERGED,
    "builtins.BrokenPipeError": DONE,  # whoever reads the results has enough
    "builtins.KeyboardInterrupt": INTERRUPTED,
    "msbgen.cli.main.Terminated": TERMINATED,
}

# While a module is being loaded an interrupt asks again after this time [s].
_PATIENCE = 0.01


class Terminated(BaseException):
    """SIGTERM: leave as after any failure, so that partial files are removed."""


def command() -> int:
    """`main` as a process of its own.

    The libraries make a million objects that live until the end: the collector need not visit them
    again and again while they come, nor once more at the end; half a second of each start.
    """
    import gc

    gc.set_threshold(50_000)
    _mend_streams()
    try:
        return main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
        gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    signals = _Signals()
    given = SimpleNamespace()
    try:
        signals.take()
        code = _run(arguments, given)
    except BaseException as error:
        signals.give_back()
        code = _explain(error, given)
    finally:
        signals.give_back()
    _settle()
    return code


def _run(arguments: Sequence[str] | None, given: SimpleNamespace) -> int:
    # Work is spread over the cores by threads of our own; a second team inside the linear
    # algebra would fight with them, badly so where the machine is busy.
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from msbgen.cli import options

    try:
        command_line().parse_args(arguments, given)
    except SystemExit as leave:  # after --help, or a sentence about what is wrong
        options.flush()
        return int(leave.code or DONE)
    with options.Messages():
        given.run(given)
    options.flush()
    return DONE


@functools.cache
def command_line() -> argparse.ArgumentParser:
    """Parser of the whole command line, made once; its help lists the verbs in groups."""
    from importlib import import_module

    from msbgen.cli import options

    parser = options.new_parser()
    verbs = options.new_verbs(parser)
    lines = ["Profiles of a task in every resource context from measurements in a few."]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            import_module(f"msbgen.cli.{name}").add(verbs)
            lines.append(f"  {name:<10} {verbs.choices[name].description}")
    parser.description = "\n".join(lines)
    parser.epilog = f"'msbgen VERB --help' says more of each.\n\n{options.EXIT_CODES}"
    return parser


# --------------------------------------------------------------------------- what went wrong


def _explain(error: BaseException, given: SimpleNamespace) -> int:
    """Say what went wrong in a sentence; returns the exit code."""
    from msbgen.cli.options import say

    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    code = next((CODES[name] for name in names if name in CODES), INTERNAL)
    if code == INTERNAL:
        import traceback

        traceback.print_exception(error)
        say("internal error; please report what is above.")
    elif code == INTERRUPTED:
        say("interrupted; no file was left half written.")
    elif code == TERMINATED:
        say("terminated; no file was left half written.")
    elif code == NOT_CONVERGED:
        say(f"{getattr(error, 'reached')}; {_remedy(given)}.")  # noqa: B009
    elif code != DONE:
        for sentence in _sentences(error):
            say(sentence)
    return code


def _remedy(given: SimpleNamespace) -> str:
    """What a user can do about a solve that did not converge, by the flags of the verb."""
    if hasattr(given, "epsilon"):
        return "raise --epsilon" + (", or use --preset default" if given.preset == "paper" else "")
    if hasattr(given, "methods"):
        return "leave the method out (--methods)"
    return "'msbgen generate' with a larger --epsilon may do"


def _sentences(error: BaseException) -> list[str]:
    """What an error says; those of the system in the form of ours."""
    if isinstance(error, FileExistsError):
        return [f"{error} (--force overwrites)"]
    if isinstance(error, OSError) and error.strerror:
        place = error.filename if error.filename is not None else "the system says"
        return [f"{os.fsdecode(place)}: {error.strerror[:1].lower()}{error.strerror[1:]}."]
    return list(getattr(error, "problems", ())) or [str(error)]


# --------------------------------------------------------------------------- signals and streams


class _Signals:
    """While they are taken, SIGINT and SIGTERM raise in the main thread what ends the work.

    Not in a module that is being loaded: extension modules make an ImportError of whatever is
    raised while they load others.  Whoever ignores a signal, as in the background of a shell, goes
    on ignoring it.
    """

    def __init__(self) -> None:
        self._came = signal.SIGINT
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        """Handle the signals from here on."""
        handlers = {
            signal.SIGINT: self._stop,
            signal.SIGTERM: self._stop,
            signal.SIGALRM: lambda *_: signal.raise_signal(self._came),
        }
        for number, handler in handlers.items():
            before = signal.getsignal(number)
            if before == signal.SIG_IGN:
                continue
            try:
                self._before[number] = before
                signal.signal(number, handler)
            except ValueError:  # in a thread, where no signal arrives
                self._before.clear()
                break

    def give_back(self) -> None:
        """Let whoever handled the signals before do so again."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if _is_loading(frame):  # later, to whoever takes signals then
            self._came = signal.Signals(number)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
            return
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a frame is called, within `main`, from where Python loads modules."""
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _settle() -> None:
    """Write what stdout still holds, or see to it that the interpreter does not try once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _mend_streams() -> None:
    """Put closed standard streams somewhere, and show what their encoding lacks as escapes.

    A file that is opened while stdout is closed would be taken for it by every library.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
        elif number:
            stream.reconfigure(errors="backslashreplace")
