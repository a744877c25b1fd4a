"""Searches on this machine: every step is a sweep that is resumed."""

import numpy as np
import pytest

from msbgen.answers.plan.plan import Budget
from msbgen.data.store import read_profiles
from msbgen.output.find import sources
from msbgen.output.find.search import Question, find_context
from msbgen.output.find.sources import Machine
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import needs_perf, spec

LOOPS = ResourceSpec("loops", "argument", tuple(1000.0 * n for n in range(1, 7)), units="1")
QUESTION = Question(10.0, {"loops": 1.0}, Budget(contexts=10), miscoverage=0.3)


def program(folder):
    code = "i=0; while [ $i -lt {loops} ]; do i=$((i+1)); done"
    return spec("/bin/sh", "-c", code, resources=(LOOPS,), folder=str(folder))


@needs_perf
def test_an_interrupted_search_keeps_its_runs_and_goes_on(tmp_path, monkeypatch):
    measure, calls = sources.measure, []

    def interrupted(given, out, **options):
        calls.append(out.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(given, out, **options)

    monkeypatch.setattr(sources, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        find_context(Machine(program(tmp_path), tmp_path, {}), QUESTION)
    before = read_profiles(tmp_path / "step-1.nc")["duration"].values
    found = find_context(Machine(program(tmp_path), tmp_path, {}), QUESTION)
    assert calls[:3] == ["step-1.nc", "step-2.nc", "step-2.nc"]  # the first is read
    (choice,) = found.choice
    assert choice.context.tolist() == [1000.0]
    assert found.runs <= 10
    after = read_profiles(tmp_path / "step-2.nc")["duration"].values
    assert np.isin(before[np.isfinite(before)], after).all()
