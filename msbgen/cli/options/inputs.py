"""What verbs read and write: contexts from wherever they come, checks of files before the work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli.options.words import UsageError, show, show_table

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

    Levels = Mapping[str, Sequence[float]]

_INF = float("inf")

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
    from msbgen.core.contexts import grid_contexts, grid_counts
    from msbgen.core.errors import ProfileError

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
    from msbgen.core.errors import ProfileError
    from msbgen.data import schema, store

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
    from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError

    try:
        yield
    except (ArgumentError, MeasurementError) as error:
        raise ProfileError(f"{place}: {error}") from None


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Name the folder whose files the body reads, where others hold files of the same names."""
    from msbgen.core.errors import MeasurementError, ProfileError

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
        from msbgen.core.errors import ProfileError

        raise ProfileError(
            f"{task_set}: runs '{profile}', of which there is no '{path}'; a file of that name is "
            f"wanted."
        )
    return path


def contexts_file(source: str) -> Path | None:
    """Return the file that contexts come from, None where they come from none."""
    return Path(source) if is_file(source) else None


def give_table(
    rows: Iterable[Sequence[object]], path: Path | None, said: str = "", *, force: bool
) -> None:
    """Write rows as CSV and show what is said of them, or show the rows where no file is named."""
    if path is None:
        show_table(rows)
        return
    from msbgen.data.tables import write_table

    write_table(rows, path, overwrite=force)
    if said:
        show(f"{path}: {said}")


def score_rows(scores: Sequence[Mapping[str, object]]) -> list[list[object]]:
    """Rows of a table of scores, its header first; shares and errors to four digits."""
    shown = [
        [f"{value:.4f}" if isinstance(value, float) else value for value in row.values()]
        for row in scores
    ]
    return [list(scores[0]), *shown]


def write_json(content: Any, path: Path, *, force: bool) -> None:
    """Write numbers and names as JSON, whole or not at all; null is what no number is."""
    from msbgen.data import files

    files.write_json(content, path, overwrite=force)
