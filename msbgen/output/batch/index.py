"""The index of a batch: one page without scripts that lists its tasks, the worst first."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from msbgen.data.files import replace_file
from msbgen.output.batch.manifest import INDEX
from msbgen.output.batch.state import TaskRecord
from msbgen.output.report.summary import WORDS

# Names of figures in the index; a grade is its place among those of a report's light.
ERROR, BASELINE, GRADE = "error", "baseline", "grade"
# File of the report of a task.
REPORT = "report.html"
# Signs of the grades.
_SIGNS = {"good": "●", "unknown": "○", "fair": "▲", "poor": "■"}
# Characters of an error in the index.
_SHOWN = 160

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Profiles of many tasks</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
table { border-collapse: collapse; width: 100% }
caption { text-align: left; padding: .5rem 0 }
th, td { text-align: left }
[scope=row], td:nth-child(2) { overflow-wrap: anywhere }
a { color: #0b4f9c }
.good { color: #1a7f37 }
.fair, .unknown { color: #9a6700 }
.poor { color: #b3261e }
@media (min-width: 60rem) {
  th, td { padding: .25rem .6rem; border-bottom: 1px solid #8888; vertical-align: top }
  [scope=row] { min-width: 8rem }
  td:nth-child(2) { min-width: 12rem }
  tr > :nth-child(n+3) { white-space: nowrap }
  tr > :nth-child(n+4):nth-child(-n+7) { text-align: right }
}
/* narrow screens: a task is a block of lines */
@media (max-width: 59.99rem) {
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden }
  table, caption, tbody, tr, [scope=row], td { display: block }
  tr { padding: .5rem 0; border-bottom: 1px solid #8888 }
  td:empty { display: none }
  td:nth-child(4)::before { content: "Error " }
  td:nth-child(5)::before { content: "Baseline " }
  td:nth-child(6)::before { content: "CPU time " }
  td:nth-child(7)::before { content: "Size " }
}
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #161616 }
  a { color: #8fc1ff }
  .good { color: #57c26f }
  .fair, .unknown { color: #e0b341 }
  .poor { color: #ff9d94 }
}
</style>
</head>
<body>
<main>
<h1>Profiles of many tasks</h1>
"""
_COLUMNS = ("Task", "State", "Verdict", "Error", "Baseline", "CPU time", "Size", "Results")


def write_index(out: Path, tasks: Sequence[TaskRecord]) -> None:
    """Write the index of a batch.

    Failed tasks come first, each with its first error; then incomplete ones; then the others by
    descending error.
    """
    failed = sum(bool(task.failures) for task in tasks)
    done = sum(task.is_complete for task in tasks)
    lines = [
        _HEAD,
        f"<p>{len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}: {done} complete, "
        f"{failed} with failures. Failed tasks come first, then the largest errors.</p>\n",
        "<table>\n",
        "<caption>Error: distance of generated from measured profiles in held-out contexts (scaled "
        "nDTW); baseline: that of bracketing interpolation; verdict: that of the report."
        "</caption>\n"
        "<thead><tr>",
        *(f'<th scope="col">{name}</th>' for name in _COLUMNS),
        "</tr></thead>\n<tbody>\n",
        *(_row(task) for task in sorted(tasks, key=_place)),
        "</tbody>\n</table>\n</main>\n</body>\n</html>\n",
    ]
    with replace_file(out / INDEX, overwrite=True) as partial:
        partial.write_text("".join(lines), encoding="utf-8", errors="backslashreplace")


def _place(task: TaskRecord) -> tuple[int, float, str]:
    rank = 0 if task.failures else 1 if not task.is_complete else 2
    error = task.figures().get(ERROR, -math.inf)
    return rank, -error, task.name


def _row(task: TaskRecord) -> str:
    name, figures = task.name, task.figures()
    cells = [
        f'<tr><th scope="row">{escape(name)}</th>',
        f"<td>{_state(task)}</td><td>{_verdict(figures.get(GRADE))}</td>",
        *(f"<td>{_number(figures.get(key))}</td>" for key in (ERROR, BASELINE)),
        f"<td>{task.seconds:.1f} s</td><td>{task.size / 1e6:.2f} MB</td>",
        f"<td>{_links(name, task.files())}</td></tr>\n",
    ]
    return "".join(cells)


def _state(task: TaskRecord) -> str:
    if task.failures:
        first = task.failures[0]
        error = str(first["error"])
        error = error if len(error) <= _SHOWN else f"{error[:_SHOWN]}…"
        return escape(f"failed: {first['unit']}: {error}")
    return "complete" if task.is_complete else "not complete"


def _verdict(grade: float | None) -> str:
    """The word of the light of a report; its sign is a shape, too."""
    if grade is None or grade not in range(len(WORDS)):
        return ""
    name = list(WORDS)[int(grade)]
    return f'<span class="{name}" aria-hidden="true">{_SIGNS[name]}</span> {WORDS[name]}'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _links(task: str, files: Sequence[str]) -> str:
    """Links to the report, if any, and to the folder."""
    folder = quote(task)
    report = f'<a href="{folder}/{REPORT}">report</a> ' if REPORT in files else ""
    return report + (f'<a href="{folder}/">files</a>' if files else "")
