"""What the verbs share: flags of one meaning, text to values, checks of files, messages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import ArrayLike, NDArray

    from msbgen.machine import OnProgress

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
    Levels = Mapping[str, Sequence[float]]
else:
    Verbs = argparse._SubParsersAction

# What every help ends with; the table itself is in `main`.
EXIT_CODES = (
    "exit codes: 0 done, 1 internal error, 2 usage or a file that cannot be written, 3 bad data, "
    "4 not converged, 5 done in part, 130 interrupted, 143 terminated by SIGTERM (after either, no "
    "file is left half written)"
)

# Characters that a terminal obeys, as escapes: names come out of files that strangers wrote.
_CONTROLS = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}

_INF = float("inf")


class UsageError(Exception):
    """The command line asks for something that cannot be done; the message says what to change."""


# --------------------------------------------------------------------------- parsers


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
        "--seed", type=seed, default=0, metavar="N", help="seed of everything random (%(default)s)"
    )


def add_out(verb: argparse.ArgumentParser, metavar: str, text: str, **given: Any) -> None:
    """``-o``: the file or folder to write."""
    verb.add_argument("-o", "--out", **{"type": output, **given}, metavar=metavar, help=text)


def add_contexts(verb: argparse.ArgumentParser, default_levels: str) -> None:
    """``--contexts``: which contexts, in the words of :func:`contexts`."""
    verb.add_argument(
        "--contexts",
        required=True,
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


# --------------------------------------------------------------------------- text to values


def count(text: str) -> int:
    """Whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number ≥ 1")
    return int(text)


def seed(text: str) -> int:
    """Whole number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def number(text: str) -> float:
    """Positive number."""
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def degrees(text: str) -> float:
    """Temperature [°C]."""
    value = _number(text)
    if not -100 <= value <= 300:
        raise argparse.ArgumentTypeError(f"{text!r} is no temperature from -100 to 300 °C")
    return value


def rate(text: str) -> float:
    """Share of cases, between 0 and 1."""
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def duration(text: str) -> float:
    """Time [s] above 0, given as 2s, 500ms, 5min, 1h, or a number of seconds."""
    value = _seconds(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time above 0, as 2s, 500ms, 5min or 1h")
    return value


def duration_or_none(text: str) -> float:
    """Time as :func:`duration`, or 0."""
    value = _seconds(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time from 0 on, as 2s, 500ms or 5min")
    return value


def budget(text: str) -> str | int:
    """Measuring time, with its unit, or a number of contexts."""
    if text.isascii() and text.isdigit():
        return count(text)
    if not _seconds(text) > 0 or not text[-1:].isalpha():
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time, as 120s, 5min or 1h, nor a number of contexts, as 40"
        )
    return text


def _seconds(text: str) -> float:
    """Time [s]; NaN for anything else."""
    from msbgen.durations import parse_seconds
    from msbgen.errors import ArgumentError

    try:
        return parse_seconds(text)
    except ArgumentError:
        return float("nan")


def _number(text: str) -> float:
    """Number in decimal notation; NaN for anything else."""
    try:
        return float(text) if text.strip()[-1:].isdigit() or text.endswith(".") else float("nan")
    except ValueError:
        return float("nan")


def share(text: str) -> float:
    """Share from 0 to below 1."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to below 1")
    return value


def slack(text: str) -> float | str:
    """Share that lower clocks may cost, or the name of a rule for it."""
    if text in ("reference", "simulated"):
        return text
    if not 0 <= _number(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a share from 0 to below 1, nor 'reference' or 'simulated'"
        )
    return _number(text)


def shares(text: str) -> list[float]:
    """Shares from 0 to 1, between commas."""
    values = [_number(part) for part in text.split(",")]
    if not all(0 <= value <= 1 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of shares from 0 to 1, as 0.3,0.5")
    return values


def names(text: str) -> list[str]:
    """Names between commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names, as old,new")
    return found


def amounts(text: str) -> dict[str, float]:
    """Positive amounts by name, as ``cache_ways=20,bandwidth=1400``."""
    parts = [part.partition("=") for part in text.split(",")]
    found = {name.strip(): _number(value) for name, _, value in parts}
    if len(found) < len(parts) or not all(
        name and 0 < value < float("inf") for name, value in found.items()
    ):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of amounts, as cache_ways=20,bandwidth=1400"
        )
    return found


def folder(text: str) -> Path:
    """Folder of files that a task set names."""
    return Path(text)


def output(text: str) -> Path:
    """File or folder to write."""
    if text == "-":
        raise argparse.ArgumentTypeError("'-' is no file, and stdout is for tables; name a file")
    return Path(text)


def table_output(text: str) -> Path | None:
    """File to write a table to, None for stdout, which is written ``-``."""
    return None if text == "-" else Path(text)


def levels(text: str) -> Mapping[str, ArrayLike]:
    """Levels by name, as the text lists them or as the virtual platform has them."""
    if text == "virtual":
        from msbgen.platform import PlatformConfig

        return PlatformConfig().levels
    from msbgen.plan.plan import parse_levels

    return parse_levels(text)


# --------------------------------------------------------------------------- contexts


def contexts(source: str, levels: Levels) -> NDArray[np.float64]:
    """Contexts that a source names, (n_contexts, n_resources), in the order of `levels`.

    ``all``: the product of all levels.  ``grid:5x5x3``: so many levels of each resource, evenly
    spread.  A file of profiles (``.nc``): its contexts.  Otherwise a CSV file with the resources as
    header.

    Raises
    ------
    ArgumentError
        A grid that the levels do not make.
    ProfileError
        A file that holds no contexts of these resources, or levels that are not known.
    """
    if is_file(source):
        return _contexts_of_file(Path(source), list(levels))
    from msbgen.contexts import grid_contexts, grid_counts
    from msbgen.errors import ProfileError

    unknown = [name for name, values in levels.items() if len(values) == 0]
    if unknown:
        raise ProfileError(
            f"resource '{unknown[0]}' has no attribute 'levels', so that '{source}' says nothing; "
            f"the levels that the platform can set, or a file of contexts, are wanted."
        )
    if source == "all":
        return grid_contexts(levels, [len(set(values)) for values in levels.values()])
    return grid_contexts(levels, grid_counts(source.removeprefix("grid:")))


def is_file(source: str) -> bool:
    """Whether contexts come from a file, rather than from what is known of the platform."""
    return source != "all" and not source.startswith("grid:")


def _contexts_of_file(path: Path, resources: list[str]) -> NDArray[np.float64]:
    if path.suffix != ".nc":
        from msbgen.data.tables import read_contexts

        return read_contexts(path, resources)
    from msbgen.data import schema, store
    from msbgen.errors import ProfileError

    dataset = store.read_profiles(path)
    there = schema.resource_names(dataset)
    if set(there) != set(resources):
        raise ProfileError(
            f"{path.name}: has contexts of {', '.join(there)}; the resources "
            f"{', '.join(resources)} are wanted."
        )
    return schema.context_table(dataset)[:, [there.index(name) for name in resources]]


def levels_of(dataset: xr.Dataset) -> Levels:
    """Levels of each resource by name, none where the file does not list them."""
    import numpy as np

    from msbgen.data.schema import resource_attrs

    given = {name: attrs.get("levels", ()) for name, attrs in resource_attrs(dataset).items()}
    return {name: np.unique(np.asarray(v, dtype=float)).tolist() for name, v in given.items()}


@contextmanager
def about(place: str) -> Iterator[None]:
    """Name the file that the body's arguments come from: what is wrong with them is bad data."""
    from msbgen.errors import ArgumentError, MeasurementError, ProfileError

    try:
        yield
    except (ArgumentError, MeasurementError) as error:
        raise ProfileError(f"{place}: {error}") from None


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Name the folder whose files the body reads, where others hold files of the same names."""
    from msbgen.errors import MeasurementError, ProfileError

    try:
        yield
    except MeasurementError as error:
        raise ProfileError(f"{folder}: {error}") from None
    except ProfileError as error:
        raise ProfileError(*(f"{folder}: {problem}" for problem in error.problems)) from None


# --------------------------------------------------------------------------- files


def check_files(
    inputs: Sequence[Path | None], outputs: Sequence[Path | None] = (), *, force: bool = False
) -> None:
    """Refuse what cannot be read or written, or would destroy an input, before the work is done.

    None stands for a file that was not asked for.
    """
    from msbgen.data.files import check_input, check_output

    seen: dict[Path, Path] = {}
    for path in filter(None, inputs):
        check_input(path)
        seen[path.resolve()] = path
    for path in filter(None, outputs):
        check_output(path, overwrite=force)
        if path.resolve() in seen:
            raise UsageError(f"{path}: is '{seen[path.resolve()]}' too; name another output.")
        seen[path.resolve()] = path


def check_folder(
    inputs: Sequence[Path | None], folder: Path, names: Sequence[str], *, force: bool
) -> None:
    """As :func:`check_files`, for files in a folder that is made if need be."""
    from msbgen.data import files

    if folder.is_dir():
        check_files(inputs, [folder / name for name in names], force=force)
        return
    check_files(inputs)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder}: is no folder; name another one.")
    files.check_folder(next(up for up in folder.resolve().parents if up.exists()), folder)


def check_room(path: Path, size: float) -> None:
    """Refuse a result of `size` bytes that the disk beside its file could never hold."""
    import shutil

    free = shutil.disk_usage(path.resolve().parent).free
    if size > free:
        raise UsageError(
            f"{path}: the result would take {size / 1e9:.3g} GB or more, there are "
            f"{free / 1e9:.3g} GB free; ask for fewer contexts or samples, or a longer interval."
        )


def profile_file(folder: Path, profile: str, task_set: str) -> Path:
    """File of a profile that a task set names, in a folder.

    Raises
    ------
    ProfileError
        There is none.
    """
    path = folder / f"{profile}.nc"
    if not os.path.isfile(path):
        from msbgen.errors import ProfileError

        raise ProfileError(
            f"{task_set}: runs '{profile}', of which there is no '{path}'; a file of that name is "
            f"wanted."
        )
    return path


def contexts_file(source: str) -> Path | None:
    """Return the file that contexts come from, None where they come from none."""
    return Path(source) if is_file(source) else None


def write_json(content: Any, path: Path, *, force: bool) -> None:
    """Write numbers and names as JSON, whole or not at all; null is what no number is."""
    import json

    from msbgen.data.files import replace_file

    with replace_file(path, overwrite=force) as partial:
        text = json.dumps(_finite(content), indent=1, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def _finite(content: Any) -> Any:
    """The content with None for NaN and infinities, which JSON lacks."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not -_INF < content < _INF else content


# --------------------------------------------------------------------------- words to the user


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
