"""A picture of programs side by side: bandwidth, ways and slowdown of each."""

from __future__ import annotations

import os

from msbgen.core.machine import load_library
from msbgen.data.files import check_output, path_of, replace_file
from msbgen.systems.beside.course import Course

_DOTS_PER_INCH = 100


def draw_course(course: Course, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Draw bandwidth and ways over time, and slowdown over progress, as PNG.

    Needs matplotlib (the extra ``report``).  Errors are those of
    :func:`msbgen.data.files.replace_file`.
    """
    check_output(path_of(path), overwrite=overwrite)
    figures = load_library("matplotlib.figure", "report", "the picture")
    figure = figures.Figure(figsize=(9, 7), layout="constrained")
    axes = figure.subplots(3, 1)
    for i, task in enumerate(course.tasks):
        label = f"{task}: {course.slowdown[i]:.2f} times as long"
        axes[0].step(course.times, course.bandwidth[i], where="pre", label=label)
        axes[1].plot(course.times, course.ways[i])
        axes[2].step(course.progress[i, 1:], course.slowdown_by_progress[i])
    for axis, name in zip(axes, ("bandwidth [MB/s]", "cache ways held", "slowdown")):
        axis.set_ylabel(name)
        axis.set_ylim(bottom=0)
    axes[1].set_xlabel("time [s]")
    axes[2].set_xlabel("progress of each program")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    with replace_file(path, overwrite=overwrite) as partial:
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH)
