"""Parsers of the verbs, and flags that mean the same in all of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msbgen.cli.options.values as values
from msbgen.cli.options.messages import show

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Verbs = argparse._SubParsersAction

# Most characters of a message about arguments.
_MESSAGE = 1000

# The end of every help; the table of exceptions is in `main`.
EXIT_CODES = (
    "exit codes: 0 done, 1 internal error, 2 usage or a file that cannot be written, 3 bad data, "
    "4 not converged, 5 done in part, 6 a limit is not kept, 7 undecided, "
    "130 interrupted, 143 terminated by SIGTERM (after either, no file is left half written)"
)


class _Help(argparse.HelpFormatter):
    """Wraps paragraphs and keeps indented lines unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        lines = text.splitlines()
        return "\n".join(s if s.startswith(" ") else fill(s, width, indent) for s in lines)


class Parser(argparse.ArgumentParser):
    """Prints its help like any other result, so that a full disk is an error.

    What begins like a negative number is a value, as ``-1s,0s``, and never an option.
    """

    def __init__(self, **options: Any):
        super().__init__(formatter_class=_Help, **options)
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Exit with the usage and a message, which is escaped and cut."""
        from msbgen.core.errors import printable

        super().error(printable(message, _MESSAGE))

    def print_help(self, file: object = None) -> None:
        """Print the help, to stdout."""
        show(self.format_help().rstrip("\n"))


class _Version(argparse.Action):
    """Look the version up only for ``--version``: the look-up is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        show(f"msbgen {version('msbgen')}")
        parser.exit()


def new_parser() -> argparse.ArgumentParser:
    """Return the top parser, without verbs."""
    usage = "msbgen [-h] [--version] VERB ..."
    parser = Parser(prog="msbgen", usage=usage)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    return parser


def new_verbs(parser: argparse.ArgumentParser) -> Verbs:
    """Return the group to which verbs are added; the caller lists them in the description."""
    return parser.add_subparsers(
        metavar="VERB", required=True, prog=parser.prog, help=argparse.SUPPRESS
    )


def new_group(verbs: Verbs, name: str, text: str) -> Verbs:
    """Return the group to which the parts of a verb are added."""
    verb = verbs.add_parser(name, description=text, epilog=EXIT_CODES)
    return verb.add_subparsers(metavar="VERB", required=True, title="parts")


def new_verb(
    verbs: Verbs, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    """Return the parser of a verb with its function `run` and one line of help."""
    verb = verbs.add_parser(name, help=text, description=text, epilog=EXIT_CODES)
    verb.set_defaults(run=run)
    return verb


# --------------------------------------------------------------------------- flags of one meaning


def add_force(verb: argparse.ArgumentParser) -> None:
    """``--force``: whether files that exist may be replaced."""
    verb.add_argument("--force", action="store_true", help="overwrite existing files")


def add_keep_all(verb: argparse.ArgumentParser) -> None:
    """``--keep-all``: whether every measured run is trusted."""
    text = "trust every run: look for no faults, correct and leave out nothing"
    verb.add_argument("--keep-all", action="store_true", help=text)


def add_seed(verb: argparse.ArgumentParser) -> None:
    """``--seed``: seed of all random draws."""
    text = "seed of all random draws (%(default)s)"
    verb.add_argument("--seed", type=values.seed, default=0, metavar="N", help=text)


def add_out(verb: argparse.ArgumentParser, metavar: str, text: str, **options: Any) -> None:
    """``-o``: the file or folder to write."""
    verb.add_argument(
        "-o", "--out", **{"type": values.output, **options}, metavar=metavar, help=text
    )


def add_table_out(verb: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """``-o``: the table to write; without it, the table is printed."""
    text = f"write {what} here, as CSV; without it, or with '-', to stdout"
    add_out(verb, metavar, text, type=values.csv_output)


def add_folds(verb: argparse.ArgumentParser, default: int, text: str) -> None:
    """``--folds``: number of parts of a cross-validation."""
    text = f"{text} (%(default)s)"
    verb.add_argument("--folds", type=values.folds, default=default, metavar="K", help=text)


def add_held_out(verb: argparse.ArgumentParser, default: str = "") -> None:
    """``--truth`` or ``--leave-out``, one of them required without a default; ``--generated``."""
    unseen = verb.add_mutually_exclusive_group(required=not default)
    text = "measured profiles of other contexts, to score against"
    unseen.add_argument("--truth", type=Path, metavar="TRUTH.nc", help=text)
    text = f"leave out K of the measured contexts at a time {default}"
    unseen.add_argument("--leave-out", type=values.count, metavar="K", help=text.strip())
    text = "also score this generated file (with --truth; repeatable)"
    verb.add_argument(
        "--generated", type=Path, action="append", default=[], metavar="FILE.nc", help=text
    )


def add_miscoverage(verb: argparse.ArgumentParser, text: str, default: float | None = None) -> None:
    """``--miscoverage``: probability that a run is not covered; without a default, no interval."""
    text += "" if default is None else " (%(default)s)"
    verb.add_argument(
        "--miscoverage", type=values.percentage, default=default, metavar="A", help=text
    )


def add_limits(verb: argparse.ArgumentParser) -> None:
    """``--latency`` and ``--power``: limits of a run in the chosen context."""
    none = float("inf")
    text = "longest time of a run, such as 20ms; or 1.1x, of the shortest expected time"
    verb.add_argument(
        "--latency", type=values.duration_or_factor, default=none, metavar="TIME|Nx", help=text
    )
    text = "highest mean power of a run"
    verb.add_argument("--power", type=values.number, default=none, metavar="WATTS", help=text)


def add_contexts(
    verb: argparse.ArgumentParser, default_levels: str, *, required: bool = True
) -> None:
    """``--contexts``: see :func:`contexts`."""
    verb.add_argument(
        "--contexts",
        required=required,
        metavar="all|grid:AxB…|FILE",
        help=f"all contexts of {default_levels}; a grid of A, B, … evenly spaced levels of "
        "each resource; or a file: CSV with the resources as header, or profiles (.nc)",
    )


def add_capacity(verb: argparse.ArgumentParser, default: str = "") -> None:
    """``--capacity``: total of each shared resource; required unless a text names the default."""
    text = "total of each shared resource, as cache_ways=20,bandwidth=1400"
    verb.add_argument(
        "--capacity",
        type=values.amounts,
        required=not default,
        metavar="NAME=X,...",
        help=f"{text} ({default})" if default else text,
    )


def add_allocator(verb: argparse.ArgumentParser) -> None:
    """``--allocator`` and ``--objective``: the method of allocation and its aim."""
    text = "exact, greedy, or the same for every core (%(default)s)"
    verb.add_argument(
        "--allocator", choices=("optimum", "dna", "equal"), default="optimum", help=text
    )
    verb.add_argument(
        "--objective",
        choices=("instructions", "progress"),
        default="instructions",
        help="maximised by optimum and dna: the sum of instruction rates, or of rates relative to "
        "the largest context (%(default)s)",
    )
