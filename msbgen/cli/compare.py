"""``msbgen compare``: whether a program became slower, by how much, and where."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

_SCHEMA_VERSION = 1


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "compare", run, "compare two versions of a program")
    text = "measured files: OLD.nc NEW.nc; with --with, old files only"
    verb.add_argument("files", type=Path, nargs="+", metavar="FILE.nc", help=text)
    text = "folder with a new version of each file, by file name or else by task"
    verb.add_argument("--with", dest="folder", type=shared.folder, metavar="DIR", help=text)
    text = "the table by context, as CSV"
    shared.add_out(verb, "OUT.csv", text, type=_table)
    text = "weights of the contexts: CSV with the resources and 'weight' as header (by noise)"
    verb.add_argument("--weights", type=Path, metavar="FILE.csv", help=text)
    shared.add_contexts(verb, "the platform, if the file lists levels", required=False)
    text = "an interval around no change, within this share, is 'the same' (1%%)"
    verb.add_argument("--tolerance", type=shared.percentage, default=0.01, metavar="X%", help=text)
    text = "confidence of intervals and bands (%(default)s)"
    verb.add_argument("--confidence", type=shared.percentage, default=0.95, metavar="C", help=text)
    text = "exit with 6 where the interval of the slowdown is above this"
    verb.add_argument("--fail-above", type=shared.percentage, metavar="X%", help=text)
    text = "exit with 7 if undecided: the interval holds the limit, or the verdict is open"
    verb.add_argument("--strict", action="store_true", help=text)
    text = "write all results here, as JSON"
    verb.add_argument("--json", type=shared.output, metavar="FILE.json", help=text)
    text = "print Markdown for a comment on a change"
    verb.add_argument("--markdown", action="store_true", help=text)
    text = "write a page here, on one task"
    verb.add_argument("--report", type=shared.output, metavar="FILE.html", help=text)
    shared.add_seed(verb)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Compare, print and write the answer; raises where a limit is exceeded."""
    if options.folder is None and len(options.files) != 2:
        raise UsageError(
            f"{len(options.files)} files without --with; OLD.nc NEW.nc or --with is wanted."
        )
    if options.report and len(options.files) != (2 if options.folder is None else 1):
        raise UsageError("--report is for two files; leave it out, or compare one task.")
    pairs = _pairs(options.files, options.folder)
    inputs = [file for pair in pairs for file in pair]
    inputs += [options.weights, shared.file_of_contexts(options.contexts or "all")]
    shared.check_files(inputs, [options.out, options.json, options.report], force=options.force)

    from msbgen.answers.compare.comparison import compare_profiles
    from msbgen.answers.compare.limits import check_limit, hold_false_discoveries
    from msbgen.answers.compare.results import CompareSettings
    from msbgen.data.profiles import Profiles
    from msbgen.output.report import comparison as words
    from msbgen.output.report import comparison_page

    if options.report:
        comparison_page.check_path(options.report)
    settings = CompareSettings(tolerance=options.tolerance, confidence=options.confidence)
    # everything is read before anything is compared
    jobs = []
    read = [(pair, *both) for pair in pairs for both in _read_pairs(pair, options.keep_all)]
    pairs = [pair for pair, *_ in read]
    for _, old, new in read:
        weights = None if options.weights is None else _read_weights(options.weights, old)
        contexts = None
        if options.contexts:
            contexts = shared.contexts_like(Profiles.of(old), options.contexts)
        jobs.append((old, new, weights, contexts))
    if options.out:
        _check_resources([old for old, *_ in jobs])
    found = []
    for (_, new_file), (old, new, weights, contexts) in zip(pairs, jobs):
        with Progress(f"comparing {new_file.name}") as step:
            one = compare_profiles(
                old, new, weights=weights, contexts=contexts, settings=settings,
                rng=options.seed, progress=step,
            )  # fmt: skip
        found.append(one)
    held = hold_false_discoveries(found)
    results = [
        one.as_dict() | {"old": str(old), "new": str(new)} for one, (old, new) in zip(held, pairs)
    ]
    tasks = [values["task"] for values in results]
    for values, (old, _) in zip(results, pairs):
        if tasks.count(values["task"]) > 1:
            values["task"] = f"{values['task']} ({old.stem})"
    shared.show(words.markdown_of(results) if options.markdown else words.text_of(results))
    if options.json:
        content = {"schema_version": _SCHEMA_VERSION, "comparisons": results}
        shared.write_json(content, options.json, force=options.force)
    if options.out:
        shared.write_or_show_table(_rows(results), options.out, force=options.force)
    if options.report:
        comparison_page.write_page(options.report, results[0], overwrite=options.force)
    names = [str(new) for _, new in pairs]
    check_limit(dict(zip(names, held)), options.fail_above, options.strict)


def _read_pairs(pair: tuple[Path, Path], keep_all: bool) -> list[list[xr.Dataset]]:
    """Runs of both versions: of two results of a benchmark tool, those of each benchmark."""
    from msbgen.sources.timings.read import holds_timings

    if not all(file.suffix != ".nc" and holds_timings(file) for file in pair):
        return [_read_pair(pair, keep_all)]
    old, new = (shared.read_times(file, keep_all=keep_all) for file in pair)
    both = [task for task in old if task in new]
    if not both:
        from msbgen.core.errors import ProfileError

        raise ProfileError(
            f"{pair[1].name}: holds {', '.join(new)}, {pair[0].name} holds {', '.join(old)}; a "
            f"benchmark of one name is wanted in both."
        )
    for file, own, others in ((pair[0], old, new), (pair[1], new, old)):
        if alone := [task for task in own if task not in others]:
            shared.print_message(f"{file.name}: {', '.join(alone)}: not in both, not compared.")
    return [[old[task], new[task]] for task in both]


def _read_pair(pair: tuple[Path, Path], keep_all: bool) -> list[xr.Dataset]:
    """Runs of both versions; messages name the folders of files of one name."""
    if pair[0].name != pair[1].name:
        return [shared.read_runs(file, keep_all=keep_all) for file in pair]
    found = []
    for file in pair:
        with shared.errors_in(file.parent):
            found.append(shared.read_runs(file, keep_all=keep_all))
        found[-1].encoding["label"] = str(file)
    return found


def _table(text: str) -> Path | None:
    """File to write the table to."""
    if text == "-":
        raise argparse.ArgumentTypeError("'-' (stdout) has the answer; name a file")
    return shared.csv_output(text)


def _pairs(files: list[Path], folder: Path | None) -> list[tuple[Path, Path]]:
    """Files of both versions; those of a folder by file name, or else by task."""
    if folder is None:
        pairs = [(files[0], files[1])]
    else:
        if not folder.is_dir():
            raise UsageError(f"{folder}: is no folder; name the one of the new versions.")
        given = {file.resolve() for file in files}
        others = [file for file in sorted(folder.glob("*.nc")) if file.resolve() not in given]
        named = {file.name: file for file in others}
        unnamed = [file for file in files if file.name not in named]
        known = {file.name for file in files}
        tasks = _tasks(one for one in others if one.name not in known) if unnamed else {}
        pairs = [
            (file, named[file.name] if file.name in named else _only_of_task(file, folder, tasks))
            for file in files
        ]
        if equal := shared.equal_names(files):
            raise UsageError(f"{equal} have one name; compare them one by one.")
    for old, new in pairs:
        if old.resolve() == new.resolve():
            raise UsageError(f"{old}: is both versions; name a file of each.")
    return pairs


def _only_of_task(file: Path, folder: Path, tasks: Mapping[str, list[Path]]) -> Path:
    """The one file of a folder that names the same task as a file."""
    from msbgen.core.errors import quoted

    (task,) = _tasks([file])
    found = tasks.get(task, [])
    if len(found) == 1:
        return found[0]
    has = f"{len(found)} ({', '.join(one.name for one in found)})" if found else "none"
    raise UsageError(
        f"{file}: {folder} has no new file of this name, and {has} of its task, {quoted(task)}; "
        f"measure its new version, name it like the old one, or leave it out."
    )


def _tasks(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by the task that they name."""
    from msbgen.data import store

    tasks: dict[str, list[Path]] = {}
    for file in files:
        tasks.setdefault(str(store.read_profiles(file).attrs.get("task", "")), []).append(file)
    return tasks


def _check_resources(datasets: list[xr.Dataset]) -> None:
    """Raise where one table cannot hold the contexts of all."""
    from msbgen.data.profiles import Profiles

    if len({frozenset(Profiles.of(dataset).resources) for dataset in datasets}) > 1:
        raise UsageError("-o is for tasks of the same resources; compare them one by one.")


def _read_weights(path: Path, old: xr.Dataset) -> NDArray[np.float64]:
    """Weights of the contexts of a dataset, from a table of all of them."""
    import numpy as np

    from msbgen.core.errors import ProfileError
    from msbgen.data import columns
    from msbgen.data.profiles import Profiles
    from msbgen.data.schema import same_contexts

    profiles = Profiles.of(old)
    names, contexts = list(profiles.resources), profiles.contexts
    table = columns.Table(path, needed=[*names, "weight"], known=[*names, "weight"])
    weight = table.range("weight", 0.0, 1e300, "a number from 0 on is wanted")
    given = np.stack([table.numbers(name) for name in names], axis=1)
    rows = same_contexts(given, contexts)
    count = np.bincount(rows[rows >= 0], minlength=len(contexts))
    if (count != 1).any():
        row = int((count != 1).argmax())
        raise ProfileError(
            f"{path.name}: has {count[row]} rows for {profiles.describe_context(row)}; one "
            f"row for each context of {profiles.source} is wanted."
        )
    unused = int((weight[rows < 0] > 0).sum())
    if unused:
        shared.print_message(
            f"{path.name}: weights of contexts that {profiles.source} does not hold, which do "
            f"not count: {unused}."
        )
    return weight[same_contexts(contexts, given)]


def _rows(results: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Header, and a row for each task and context."""
    header = [one["name"] for one in results[0]["resources"]]
    yield ["task", *header, "ratio", "low", "high"]
    for values in results:
        names = [one["name"] for one in values["resources"]]
        order = [names.index(name) for name in header]
        labels = [one["labels"] for one in values["resources"]]
        for row in zip(values["contexts"], values["ratio"], values["low"], values["high"]):
            levels = [_cell(row[0][k], labels[k]) for k in order]
            yield [values["task"], *levels, *(f"{value:.6g}" for value in row[1:])]


def _cell(level: float, labels: list[str]) -> str:
    from msbgen.data.schema import level_text

    return level_text(level, labels)
