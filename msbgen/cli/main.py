"""The ``msbgen`` command, from its arguments to its exit code.

Results go to stdout, after the verb has written its files and raised its verdict; messages and
progress go to stderr.  Verbs catch no exceptions: one table here maps each exception to its exit
code.  Slow imports are inside
functions, so that ``--help`` is fast and signals are handled from the start.
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

DONE, INTERNAL, USAGE, BAD_DATA, NOT_CONVERGED, PARTIAL, SLOWER, UNDECIDED = range(8)
INTERRUPTED, TERMINATED = 130, 143

# The verbs in groups; each is a module of this folder with `add` and `run`.
GROUPS = {
    "the loop": (
        *("find", "measure", "import", "check", "plan", "generate", "bound", "choose", "evaluate"),
        *("report", "compare", "export", "platform", "batch", "demo"),
    ),
    "systems": ("beside", "realtime", "runtime", "machines", "kernels", "graph"),
}

# Exit code of an exception: that of its nearest base class in this table, else INTERNAL.  By name,
# so that no module is imported for it.
CODES = {
    "msbgen.core.errors.ProfileError": BAD_DATA,
    "msbgen.core.errors.MeasurementError": BAD_DATA,
    "msbgen.core.errors.ArgumentError": USAGE,
    "msbgen.cli.options.messages.UsageError": USAGE,
    "msbgen.cli.options.messages.PartialResultError": PARTIAL,
    "msbgen.sources.platform.record.RecordError": USAGE,
    "msbgen.sources.measure.actuators.actuator.SettingError": USAGE,
    "msbgen.sources.measure.sweep.requirements.RequirementError": USAGE,
    "msbgen.sources.measure.sweep.profiles.IncompleteError": PARTIAL,
    "msbgen.output.batch.run.BatchIncompleteError": PARTIAL,
    "msbgen.output.batch.pool.ClusterError": PARTIAL,
    "msbgen.answers.compare.limits.SlowerError": SLOWER,
    "msbgen.core.choice.InfeasibleError": SLOWER,
    "msbgen.answers.compare.limits.UndecidedError": UNDECIDED,
    "builtins.OSError": USAGE,
    "msbgen.engine.bridge.solve.NotConvergedError": NOT_CONVERGED,
    "builtins.KeyboardInterrupt": INTERRUPTED,
    "msbgen.cli.main.Terminated": TERMINATED,
}

# An interrupt during the import of a module is delivered after this time [s].
_PATIENCE = 0.01


class Terminated(BaseException):
    """SIGTERM: handled like any failure, so that partial files are removed."""


def command() -> int:
    """Run `main` as a process."""
    import gc

    _repair_streams()
    try:
        return main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
        gc.freeze()  # else the interpreter searches a million objects of the libraries as it ends


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code, which does not depend on a reader of stdout."""
    signals = _Signals()
    options = SimpleNamespace()
    codes: list[int] = []
    for act in (lambda: _run(arguments, options), _print_results):
        try:
            signals.take()
            codes.append(act())
        except BaseException as error:
            signals.give_back()
            codes.append(_explain(error, options))
        finally:
            signals.give_back()
    _settle()
    return next((code for code in codes if code != DONE), DONE)


def _run(arguments: Sequence[str] | None, parsed: SimpleNamespace) -> int:
    # msbgen spreads work over the cores with its own threads; threads of the linear algebra
    # library would compete with them.
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    # POT gets arrays of numpy only; it would import the other libraries, for seconds
    for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    from msbgen.cli import options

    try:
        command_line().parse_args(arguments, parsed)
    except SystemExit as leave:  # after --help, or after a usage error
        return int(leave.code or DONE)
    with options.Messages():
        parsed.run(parsed)
    return DONE


def _print_results() -> int:
    from msbgen.cli import options

    options.print_results()
    return DONE


@functools.cache
def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line, built once; its help lists the verbs in groups."""
    from importlib import import_module

    from msbgen.cli import options

    parser = options.new_parser()
    verbs = options.new_verbs(parser)
    lines = ["Profiles of a program in every resource context, from measurements in a few."]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            import_module(f"msbgen.cli.{name}").add(verbs)
            lines.append(f"  {name:<10} {verbs.choices[name].description}")
    parser.description = "\n".join(lines)
    parser.epilog = f"'msbgen VERB --help' shows the options of a verb.\n\n{options.EXIT_CODES}"
    return parser


# --------------------------------------------------------------------------- exceptions


def _explain(error: BaseException, options: SimpleNamespace) -> int:
    """Print the message of an exception; returns the exit code."""
    from msbgen.cli.options import print_message
    from msbgen.core.compiled import cache_failed

    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    code = next((CODES[name] for name in names if name in CODES), INTERNAL)
    if isinstance(error, Exception) and cache_failed(error):
        code = USAGE
        print_message(
            f"the cache of compiled kernels cannot be used ({error}); name another folder in "
            f"NUMBA_CACHE_DIR."
        )
    elif code == INTERNAL:
        import traceback

        traceback.print_exception(error)
        print_message("internal error; please report the traceback above.")
    elif code == INTERRUPTED:
        print_message("interrupted; no file was left half written.")
    elif code == TERMINATED:
        print_message("terminated; no file was left half written.")
    elif code == NOT_CONVERGED:
        print_message(f"{getattr(error, 'reached')}; {_remedy(options)}.")  # noqa: B009
    else:
        for sentence in _sentences(error):
            print_message(sentence)
    return code


def _remedy(options: SimpleNamespace) -> str:
    """Return the remedy for a solve that did not converge, by the flags of the verb."""
    if hasattr(options, "epsilon"):
        return "raise --epsilon" + (
            ", or use --preset default" if options.preset == "paper" else ""
        )
    if hasattr(options, "methods"):
        return "leave the method out (--methods)"
    return "try 'msbgen generate' with a larger --epsilon"


def _sentences(error: BaseException) -> list[str]:
    """Return the sentences of an error; errors of the system in the same form as others."""
    if isinstance(error, FileExistsError):
        return [f"{error} (--force overwrites)"]
    if isinstance(error, OSError) and error.strerror:
        place = error.filename if error.filename is not None else "system"
        return [f"{os.fsdecode(place)}: {error.strerror[:1].lower()}{error.strerror[1:]}."]
    return list(getattr(error, "problems", ())) or [str(error)]


# --------------------------------------------------------------------------- signals and streams


class _Signals:
    """Handlers of SIGINT and SIGTERM that raise in the main thread.

    They do not raise while a module is being imported: extension modules turn any exception into
    an ImportError.  An ignored signal, as in a background job of a shell, stays ignored.
    """

    def __init__(self) -> None:
        self._came = signal.SIGINT
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        """Install the handlers."""
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
        """Restore the handlers that were there before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if _is_loading(frame):  # deliver it later
            self._came = signal.Signals(number)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
            return
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a frame, within `main`, is called by the import system."""
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _settle() -> None:
    """Flush stdout; after an error, redirect it so that the interpreter does not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _repair_streams() -> None:
    """Open closed standard streams on the null device; show unencodable characters as escapes.

    Otherwise the next opened file would get the number of stdout.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
        elif number:
            stream.reconfigure(errors="backslashreplace")
