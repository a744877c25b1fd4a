"""Parsers of the verbs, and flags that mean the same in all of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msbgen.cli.options.values import amounts, csv_output, folds, output, seed
from msbgen.cli.options.words import show

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Verbs = argparse._SubParsersAction

# What every help ends with; the table itself is in `main`.
EXIT_CODES = (
    "exit codes: 0 done, 1 internal error, 2 usage or a file that cannot be written, 3 bad data, "
    "4 not converged, 5 done in part, 130 interrupted, 143 terminated by SIGTERM (after either, no "
    "file is left half written)"
)


class _Help(argparse.HelpFormatter):
    """Fills paragraphs, and keeps lines that are indented as they stand."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        lines = text.splitlines()
        return "\n".join(s if s.startswith(" ") else fill(s, width, indent) for s in lines)


class Parser(argparse.ArgumentParser):
    """Shows its help as any other result: a disk that is full is told of."""

    def __init__(self, **given: Any):
        super().__init__(formatter_class=_Help, **given)

    def print_help(self, file: object = None) -> None:
        """Print the help, to stdout."""
        show(self.format_help().rstrip("\n"))


class _Version(argparse.Action):
    """Look the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        show(f"msbgen {version('msbgen')}")
        parser.exit()


def new_parser() -> argparse.ArgumentParser:
    """Return the parser above all verbs, still without them."""
    usage = "msbgen [-h] [--version] VERB ..."
    parser = Parser(prog="msbgen", usage=usage)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    return parser


def new_verbs(parser: argparse.ArgumentParser) -> Verbs:
    """Make room for verbs, which the caller lists in the description."""
    return parser.add_subparsers(
        metavar="VERB", required=True, prog=parser.prog, help=argparse.SUPPRESS
    )


def new_group(verbs: Verbs, name: str, text: str) -> Verbs:
    """Make room for the parts of a verb."""
    verb = verbs.add_parser(name, description=text, epilog=EXIT_CODES)
    return verb.add_subparsers(metavar="VERB", required=True, title="parts")


def new_verb(
    verbs: Verbs, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    """Parser of a verb that `run` carries out; the text says in a line what it does."""
    verb = verbs.add_parser(name, help=text, description=text, epilog=EXIT_CODES)
    verb.set_defaults(run=run)
    return verb


# --------------------------------------------------------------------------- flags of one meaning


def add_force(verb: argparse.ArgumentParser) -> None:
    """``--force``: whether files that exist may be replaced."""
    verb.add_argument("--force", action="store_true", help="overwrite existing files")


def add_seed(verb: argparse.ArgumentParser) -> None:
    """``--seed``: where everything random comes from."""
    verb.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of everything random (%(default)s)",
    )


def add_out(verb: argparse.ArgumentParser, metavar: str, text: str, **given: Any) -> None:
    """``-o``: the file or folder to write."""
    verb.add_argument("-o", "--out", **{"type": output, **given}, metavar=metavar, help=text)


def add_table_out(verb: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """``-o``: the table to write, for verbs that show it otherwise (see :func:`give_table`)."""
    text = f"write {what} here, as CSV; without it, or with '-', to stdout"
    add_out(verb, metavar, text, type=csv_output)


def add_folds(verb: argparse.ArgumentParser, default: int, text: str) -> None:
    """``--folds``: in how many parts something is left out."""
    text = f"{text} (%(default)s)"
    verb.add_argument("--folds", type=folds, default=default, metavar="K", help=text)


def add_contexts(
    verb: argparse.ArgumentParser, default_levels: str, *, required: bool = True
) -> None:
    """``--contexts``: which contexts, in the words of :func:`contexts`."""
    verb.add_argument(
        "--contexts",
        required=required,
        metavar="all|grid:AxB…|FILE",
        help=f"all contexts of {default_levels}; a grid of so many levels of each resource, "
        "evenly spread; or those of a file: CSV with the resources as header, or profiles (.nc)",
    )


def add_capacity(verb: argparse.ArgumentParser) -> None:
    """``--capacity``: how much there is of each shared resource."""
    verb.add_argument(
        "--capacity",
        type=amounts,
        required=True,
        metavar="NAME=X,...",
        help="how much there is of each shared resource, as cache_ways=20,bandwidth=1400",
    )


def add_allocator(verb: argparse.ArgumentParser) -> None:
    """``--allocator`` and ``--objective``: how decisions are made."""
    verb.add_argument(
        "--allocator",
        choices=("optimum", "dna", "equal"),
        default="optimum",
        help="exact, greedy, or the same for every core (%(default)s)",
    )
    verb.add_argument(
        "--objective",
        choices=("instructions", "progress"),
        default="instructions",
        help="what it makes large: the sum of instruction rates, or of rates divided by those in "
        "the largest context (%(default)s)",
    )
