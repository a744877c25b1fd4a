"""Inputs and outputs of the verbs: contexts, checks of files before the work, tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msbgen.cli.options.messages import Progress, UsageError, print_message, show, show_table

if TYPE_CHECKING:
    import argparse

    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate.model import ProfileModel

    Model = TypeVar("Model", bound=ProfileModel)
    Levels = Mapping[str, Sequence[float]]
    Labels = Mapping[str, Sequence[str]]

# --------------------------------------------------------------------------- contexts


def contexts(source: str, levels: Levels, labels: Labels | None = None) -> NDArray[np.float64]:
    """Contexts of a source, (n_contexts, n_resources), with resources in the order of `levels`.

    ``all`` is the product of all levels; ``grid:5x5x3`` takes so many evenly spaced levels of each
    resource.  Other sources are files: profiles (``.nc``), or CSV with the resources as header.
    Resources with `labels` have words there for the levels 1, 2, ….

    Raises
    ------
    ArgumentError
        A grid that the levels do not allow.
    ProfileError
        A file without contexts of these resources, or unknown levels.
    """
    if is_file(source):
        return _contexts_of_file(Path(source), list(levels), labels or {})
    from msbgen.core.contexts import grid_contexts, grid_counts
    from msbgen.core.errors import ProfileError

    unknown = [name for name, values in levels.items() if len(values) == 0]
    if unknown:
        raise ProfileError(
            f"resource '{unknown[0]}' has no attribute 'levels', which '{source}' needs; add the "
            f"levels that the platform can set (import --levels), or name a file of contexts."
        )
    if source == "all":
        return grid_contexts(levels, [len(set(values)) for values in levels.values()])
    return grid_contexts(levels, grid_counts(source.removeprefix("grid:")))


def contexts_like(measured: Profiles, source: str) -> NDArray[np.float64]:
    """Contexts of a source that may be generated from measured profiles.

    Prints a warning about contexts that the platform cannot set, by the levels of the profiles.
    Errors as :func:`contexts`, and a ProfileError for contexts in other units or without a
    positive level, before the long work of a fit.
    """
    from msbgen.data.schema import beyond_levels, labels_of, near_contexts

    labels = {name: labels_of(attrs) for name, attrs in measured.resources.items()}
    found = contexts(source, levels_of(measured), labels)
    with errors_of_contexts(source):
        found = near_contexts(found, measured.contexts, measured.resources)
    for sentence in beyond_levels(found, measured.resources):
        print_message(f"warning: {source}: {sentence}")
    return found


def read_runs(path: Path, *, keep_all: bool) -> xr.Dataset:
    """Measured profiles, all of whose runs are trusted with `keep_all`.

    Other files than netCDF hold the times of one task (:func:`read_times`).  Errors as
    :func:`msbgen.data.store.read_profiles`.
    """
    from msbgen.data import schema, store
    from msbgen.data.durations_only import with_interval
    from msbgen.sources.timings.read import holds_timings

    if path.suffix != ".nc" and holds_timings(path):
        found = read_times(path, keep_all=keep_all)
        if len(found) > 1:
            raise UsageError(
                f"{path} holds the benchmarks {', '.join(found)}; write one of them by 'msbgen "
                f"import {path} --task NAME'."
            )
        return next(iter(found.values()))
    dataset = with_interval(store.read_profiles(path))
    return schema.trusting(dataset) if keep_all else dataset


def read_times(path: Path, *, keep_all: bool) -> dict[str, xr.Dataset]:
    """Profiles of each task in a table of times or a result of a benchmark tool, by its name."""
    from msbgen.data import check, schema
    from msbgen.data.durations_only import with_interval
    from msbgen.sources.timings.read import read_timings
    from msbgen.sources.timings.timings import profiles_of

    found = {}
    for one in read_timings([path]):
        dataset, _ = profiles_of(one)
        dataset.encoding["source"] = str(path)
        check.validate_profiles(dataset, source=path.name)
        dataset = with_interval(dataset)
        found[one.task] = schema.trusting(dataset) if keep_all else dataset
    return found


def read_measured(
    path: Path, model_of: Callable[[xr.Dataset], Model], *, keep_all: bool = False
) -> tuple[xr.Dataset, Model | None]:
    """Measured profiles and None; or the known contexts of a saved model, and the model.

    `model_of` makes the model of the content of its file.  With `keep_all` all measured runs are
    trusted; a model was fitted with or without it.  Errors as
    :func:`msbgen.data.store.read_profiles` and those of `model_of`.
    """
    from msbgen.data import check, schema, store
    from msbgen.data.durations_only import with_interval
    from msbgen.engine.generate.model import is_model

    dataset = store.load_netcdf(path)
    if is_model(dataset):
        if keep_all:
            raise UsageError(f"{path} is a fitted model; --keep-all needs the measured profiles.")
        model = model_of(dataset)
        return model.known, model
    measured = with_interval(check.validate_profiles(dataset, source=path.name))
    return (schema.trusting(measured) if keep_all else measured), None


@contextmanager
def errors_of_contexts(source: str) -> Iterator[None]:
    """Turn errors about a context into a ProfileError that names the source, and a table's line."""
    from msbgen.data.tables import rows_of

    with rows_of(source) if is_file(source) else errors_from(source):
        yield


def is_file(source: str) -> bool:
    """Whether contexts come from a file rather than from the levels of the platform."""
    return source != "all" and not source.startswith("grid:")


def _contexts_of_file(path: Path, resources: list[str], labels: Labels) -> NDArray[np.float64]:
    if path.suffix != ".nc":
        from msbgen.data.tables import read_contexts

        return read_contexts(path, resources, labels)
    from msbgen.core.errors import ProfileError
    from msbgen.data import store
    from msbgen.data.profiles import Profiles

    profiles = Profiles.of(store.read_profiles(path))
    found = list(profiles.resources)
    if set(found) != set(resources):
        raise ProfileError(
            f"{path.name}: has contexts of {', '.join(found)}; the resources "
            f"{', '.join(resources)} are wanted."
        )
    return profiles.contexts[:, [found.index(name) for name in resources]]


def levels_of(profiles: Profiles) -> Levels:
    """Levels of each resource by name; an empty list where the file does not list them."""
    import numpy as np

    levels = {name: attrs.get("levels", ()) for name, attrs in profiles.resources.items()}
    return {name: np.unique(np.asarray(v, dtype=float)).tolist() for name, v in levels.items()}


@contextmanager
def errors_from(place: str) -> Iterator[None]:
    """Turn errors of the body into a :class:`ProfileError` that names the file of its arguments.

    Limits that cannot be kept stay an :class:`InfeasibleError`.
    """
    from msbgen.core.choice import InfeasibleError
    from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError

    try:
        yield
    except InfeasibleError as error:
        raise InfeasibleError(f"{place}: {error}") from None
    except (ArgumentError, MeasurementError) as error:
        raise ProfileError(f"{place}: {error}") from None


@contextmanager
def errors_in(folder: Path) -> Iterator[None]:
    """Prefix errors of the body with the folder whose files it reads."""
    from msbgen.core.errors import MeasurementError, ProfileError

    try:
        yield
    except MeasurementError as error:
        raise ProfileError(f"{folder}: {error}") from None
    except ProfileError as error:
        raise ProfileError(*(f"{folder}: {problem}" for problem in error.problems)) from None


def equal_names(paths: Sequence[Path], part: str = "name") -> str:
    """The first two files of one name, or of one `part` of it, in words; empty if all differ."""
    named: dict[str, Path] = {}
    for path in paths:
        name = getattr(path, part)
        if name in named:
            return f"'{named[name]}' and '{path}'"
        named[name] = path
    return ""


def generated_files(options: argparse.Namespace) -> dict[str, Path]:
    """Generated files to score, by their names; raises without a truth, or where names repeat."""
    if options.generated and not options.truth:
        raise UsageError("--generated needs --truth; name a file of measured profiles.")
    if equal := equal_names(options.generated):
        raise UsageError(f"--generated names {equal}, which have one name; rename one.")
    return {path.name: path for path in options.generated}


def refuse_unused(
    options: argparse.Namespace, names: str, why: str, remedy: str = "drop it"
) -> None:
    """Raise for the first of some options that was given, as it would have no effect.

    `names` are those of its attributes, `why` and `remedy` end the sentence; options with a
    default other than None, False or nothing always count as given.
    """
    for name in names.split():
        value = getattr(options, name)
        if value is not None and value is not False and value != []:
            flag = "with" if name == "onto" else name.replace("_", "-")
            raise UsageError(f"--{flag} {why}; {remedy}.")


def check_leave_out(options: argparse.Namespace, measured: xr.Dataset) -> None:
    """Raise where ``--leave-out`` leaves no context for the fit."""
    n = measured.sizes["context"]
    if options.leave_out and options.leave_out >= n:
        raise UsageError(
            f"--leave-out {options.leave_out} leaves none of the {n} contexts for the fit; "
            f"choose fewer."
        )


# --------------------------------------------------------------------------- files


def check_files(
    inputs: Sequence[Path | None], outputs: Sequence[Path | None] = (), *, force: bool = False
) -> None:
    """Raise where a file cannot be read or written, or an output would overwrite an input.

    The checks run before the work.  None stands for an option that was not used.
    """
    from msbgen.data.files import check_input, check_output

    seen: dict[Path, str] = {}
    for path in filter(None, inputs):
        check_input(path)
        seen[path.resolve()] = f"the input '{path}'"
    for path in filter(None, outputs):
        check_output(path, overwrite=force)
        if path.resolve() in seen:
            raise UsageError(f"{path}: is {seen[path.resolve()]}, too; name another output.")
        seen[path.resolve()] = f"the output '{path}'"


def check_folder(
    inputs: Sequence[Path | None], folder: Path, names: Sequence[str], *, force: bool
) -> None:
    """As :func:`check_files`, for outputs in a folder, which is created if needed."""
    from msbgen.data import files

    if folder.is_dir():
        check_files(inputs, [folder / name for name in names], force=force)
        return
    check_files(inputs)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder}: is no folder; name another one.")
    files.check_folder(next(up for up in folder.resolve().parents if up.exists()), folder)


def check_disk_space(path: Path, size: float) -> None:
    """Raise where a result of `size` bytes is larger than the free space of its disk."""
    import shutil

    free = shutil.disk_usage(path.resolve().parent).free
    if size > free:
        raise UsageError(
            f"{path}: the result would take {size / 1e9:.3g} GB or more, {free / 1e9:.3g} GB "
            f"are free; choose fewer contexts or samples, or a longer interval."
        )


def profile_file(folder: Path, profile: str, task_set: str) -> Path:
    """Path of a profile of a task set in a folder.

    Raises
    ------
    ProfileError
        The file does not exist.
    """
    path = folder / f"{profile}.nc"
    if not os.path.isfile(path):
        from msbgen.core.errors import ProfileError

        raise ProfileError(
            f"{task_set}: runs '{profile}', but there is no file '{path}'; put the profile there."
        )
    return path


def file_of_contexts(source: str) -> Path | None:
    """Return the file of contexts, None where the source is not a file."""
    return Path(source) if is_file(source) else None


def write_or_show_table(
    rows: Iterable[Sequence[object]], path: Path | None, summary: str = "", *, force: bool
) -> None:
    """Write rows as CSV and print the summary; without a file, print the rows."""
    if path is None:
        show_table(rows)
        return
    from msbgen.data.tables import write_table

    write_table(rows, path, overwrite=force)
    if summary:
        show(f"{path}: {summary}")


def write_scores(
    evaluate: Callable[..., Sequence[Mapping[str, object]]],
    runs: xr.Dataset,
    options: argparse.Namespace,
    **settings: Any,
) -> None:
    """Score a predictor on held-out runs; write or print the table, floats with four decimals.

    Its header has names with units for the keys of the scores.
    """
    with Progress("evaluating") as step, errors_from(options.runs.name):
        scores = evaluate(runs, **settings, progress=step)
    rows = [
        [f"{value:.4f}" if isinstance(value, float) else value for value in row.values()]
        for row in scores
    ]
    header = [_score_title(name) for name in scores[0]]
    write_or_show_table([header, *rows], options.out, force=options.force)


# Columns of scores: what a share is of, and what a number counts.
_SCORE_TITLES = {
    "error": "relative error",
    "error_elsewhere": "relative error on other machines",
    "same_order": "all in order [share of rows]",
    "factor": "error factor on other machines",
    "best_found": "fastest found [share of rows]",
    "time_lost": "time lost [share of the fastest]",
    "tenfold": "off tenfold [runs]",
}


def _score_title(name: str) -> str:
    """Header of a key of scores; `coverage_0.05` is `coverage at 0.05 [share of runs]`."""
    what, _, at = name.partition("_")
    if what == "within":
        return f"within {at} % [share of rows]"
    if what == "coverage":
        return f"coverage at {at} [share of runs]"
    if what == "margin":
        return f"relative margin at {at}"
    return _SCORE_TITLES.get(name, name)


def write_json(content: Any, path: Path, *, force: bool) -> None:
    """Write JSON atomically; NaN and infinity become null."""
    from msbgen.data import files

    files.write_json(content, path, overwrite=force)
