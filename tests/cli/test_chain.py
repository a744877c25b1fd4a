"""What one verb writes, every verb reads: the loop on five kinds of files."""

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.data.energy import add_energy
from msbgen.data.store import read_profiles, write_profiles
from partials import in_groups

WAYS, CLOCKS = (2.0, 4.0, 8.0), (1.0, 2.0)
GRID = np.array([(w, f) for w in WAYS for f in CLOCKS])


def task(contexts=GRID, n_runs=3):
    """A task whose platform has no more levels than it was measured at."""
    made = synthetic_task(contexts, n_runs=n_runs)
    for name, levels in (("cache_ways", WAYS), ("frequency", CLOCKS)):
        made[name].attrs["levels"] = list(levels)
    return made


def without_instructions():
    made = task()
    spread = 1 + 0.2 * np.arange(3)[:, None]  # of events, not of the work
    misses = (made["cache_misses"] * spread).assign_attrs(made["cache_misses"].attrs)
    made = made.drop_vars("instructions").assign(cache_misses=misses)
    return made.assign_attrs(progress="cache_requests")


def of_one_resource():
    return task(GRID[GRID[:, 1] == 2.0]).drop_vars("frequency")


def with_energy():
    made = task()
    power = (0.5 + made["frequency"] + 0 * made["instructions"]).assign_attrs(units="W")
    return add_energy(made.assign(power=power), "power")


def partial():
    return in_groups(task(n_runs=4))


KINDS = {
    "no instructions": without_instructions,
    "one resource": of_one_resource,
    "energy": with_energy,
    "partial": partial,
    "generated samples": task,
}
# A batch's job makes what a report needs, too: each kind goes through one of both.
REPORTED = ("one resource", "energy")
BATCH = """
[defaults]
kinds = ["mean"]
budget = "1s"
[[task]]
measured = "x.nc"
"""


@pytest.mark.usefixtures("panels_without_layout")
@pytest.mark.parametrize("kind", KINDS)
def test_what_one_verb_writes_every_verb_reads(kind, msbgen, tmp_path):
    def succeed(*arguments):
        done = msbgen(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    write_profiles(KINDS[kind](), tmp_path / "x.nc")
    if kind == "generated samples":
        (tmp_path / "x.nc").rename(tmp_path / "m.nc")
        succeed("generate", "m.nc", "-o", "x.nc", "--contexts", "all", "--kind", "sample",
                "--samples", 2)  # fmt: skip
    every = ("generate", "x.nc", "--contexts", "all", "--kind", "sample", "--samples", 2)
    succeed(*every, "-o", "all.nc")
    measured, generated = (read_profiles(tmp_path / name) for name in ("x.nc", "all.nc"))
    assert generated.attrs.get("progress") == measured.attrs.get("progress")
    for name in ("x.nc", "all.nc"):
        succeed("check", name)
        table = f"phases-{name}"
        assert "left out" not in succeed("realtime", "phases", name, "-o", table).stderr
        succeed("realtime", "allocate", table, table, "--progress", "0,.5",
                "--capacity", "cache_ways=8", "--objective", "progress")  # fmt: skip
    succeed("plan", "all.nc", "--budget", "1s", "--whole-budget", "-o", "next.csv")
    succeed("bound", "all.nc", "--contexts", "next.csv", "--model", "b.nc")
    succeed("choose", "b.nc", "--deadline", "1h", "--cost", "cache_ways=1")
    succeed("export", "all.nc", "x.nc", "--format", "perfetto", "-o", "x.pftrace")
    succeed("export", "all.nc", "x.nc", "--format", "openmetrics", "-o", "x.txt")
    succeed("evaluate", "all.nc", "--leave-out", 2, "--methods", "default/mean,multilinear")
    if kind in REPORTED:
        succeed("report", "all.nc", "-o", "all.html")
    else:
        (tmp_path / "tasks.toml").write_text(BATCH)
        succeed("batch", "tasks.toml", "-o", "out")
