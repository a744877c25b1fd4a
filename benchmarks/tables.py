"""Where results go: JSON files in ``results/``, tables between the markers of the studies' pages.

A page has ``<!-- results: NAME -->`` and ``<!-- end -->`` around the table NAME.  Each study has a
function ``tables()`` that makes its tables from the stored JSON;
``python benchmarks/reproduce.py tables`` writes all of them anew.
"""

import json
import logging
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PROFILES = ROOT / "profiles"
# Where pages with tables are.
PLACES = (ROOT / "benchmarks", ROOT / "msbgen")
TASKS = ("bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd")


def parser(
    text: str, parts: Iterable[str] = (), required: Sequence[str] = (), **folders: str
) -> ArgumentParser:
    """A parser with ``--only`` for the parts of a study, and an option for each folder.

    The description is the first line of the module's docstring; folders come with their helps.
    """
    found = ArgumentParser(description=text.splitlines()[0])
    if names := [*parts]:
        found.add_argument("--only", nargs="+", choices=names, default=names)
    for name, folder_help in folders.items():
        found.add_argument(f"--{name}", type=Path, required=name in required, help=folder_help)
    return found


@contextmanager
def errors_only() -> Iterator[None]:
    """Warnings of the package are not printed meanwhile."""
    logger = logging.getLogger("msbgen")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def mean_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each figure over rows, which have the figures of the first."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def find(rows: Iterable[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """The rows with some values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def store(path: Path, content: Any) -> None:
    """Write JSON into a file, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def stored(name: str) -> Any:
    """The content of a file of ``results/``, an empty dict where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def cached(path: Path | None, compute: Callable[[], Any]) -> Any:
    """The content of a JSON file; computed and stored first where the file is missing."""
    if path is None:
        return compute()
    if not path.exists():
        written = path.with_suffix(".new")
        store(written, compute())
        written.replace(path)
    return json.loads(path.read_text())


def renew(path: Path | None, parts: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Run and print parts, and replace them in a JSON file, if there is one; all of its parts."""
    results = json.loads(path.read_text()) if path and path.exists() else {}
    for name, part in parts.items():
        results[name] = part()
        print(name, json.dumps(results[name]), sep=": ", flush=True)
        if path:
            store(path, results)
    return results


def subplots(rows: int = 1, columns: int = 1, **settings: Any) -> tuple[Any, Any]:
    """A figure and its axes, drawn without a window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=settings.pop("figsize"), layout="constrained")
    return figure, figure.subplots(rows, columns, **settings)


def publish(tables: Mapping[str, str], folders: Sequence[Path] = PLACES) -> None:
    """Print tables, and put each between its markers on the pages in some folders.

    A LookupError is raised if no page has the markers.
    """
    paths = sorted(path for folder in folders for path in folder.rglob("*.md"))
    pages = {path: path.read_text(encoding="utf-8") for path in paths}
    for name, text in tables.items():
        print(f"\n{name}\n\n{text}", flush=True)
        marker = f"<!-- results: {name} -->\n"
        places = [path for path, page in pages.items() if marker in page]
        if not places:
            raise LookupError(f"no page has a place for the table '{name}'")
        for path in places:
            before, _, rest = pages[path].partition(marker)
            after = rest.partition("<!-- end -->")[2]
            pages[path] = f"{before}{marker}{text}\n<!-- end -->{after}"
    for path, page in pages.items():
        if page != path.read_text(encoding="utf-8"):
            path.write_text(page, encoding="utf-8")
