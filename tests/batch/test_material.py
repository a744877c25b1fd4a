"""Everything of a task, gathered: equal to what each part of the library says by itself."""

import numpy as np
import pytest

from batches import GRID, small_task
from msbgen.batch import material as gather
from msbgen.batch.material import gather_material, thinned
from msbgen.bounds.model import calibrate_model
from msbgen.data.schema import context_table
from msbgen.errors import ArgumentError
from msbgen.plan.plan import plan_contexts
from msbgen.report.material import Missing


def test_what_is_generated_and_bounded_is_what_the_model_says(task, model, gathered):
    everywhere = gathered.everywhere
    table = context_table(everywhere.profiles)
    assert len(table) == 4 * 3  # the platform's levels
    mean = model.generate(table, kind="mean")
    np.testing.assert_array_equal(everywhere.profiles["duration"], mean["duration"])
    bound = calibrate_model(model, task).duration_bound(table, 0.05)
    np.testing.assert_array_equal(everywhere.bounds.duration, bound)
    assert everywhere.bounds.miscoverage == 0.05
    assert everywhere.notes == ()


def test_the_plan_is_that_of_the_command_it_names(model, gathered):
    plan = plan_contexts(model, 12)
    np.testing.assert_array_equal(gathered.next.contexts, plan.contexts)
    np.testing.assert_array_equal(gathered.next.error, plan.error)
    assert gathered.next.commands[0] == "msbgen plan task.nc --budget 12 -o next.csv"


def test_the_bridge_is_solved_to_its_tolerance(model, gathered):
    convergence = gathered.convergence
    assert convergence.status.startswith("converged")
    assert convergence.errors.max() <= convergence.tol == model.law.settings.tol
    assert len(convergence.errors) == model.law.settings.segments - 1


def test_without_listed_levels_the_measured_ones_are_taken(task):
    bare = task.copy()
    for name in ("cache_ways", "frequency"):
        bare[name].attrs.pop("levels")
    found = gather_material(bare.isel(context=slice(0, 10)), source="a b.nc")
    assert found.everywhere.profiles.sizes["context"] == 2 * 5
    assert "does not list the levels of cache_ways, frequency" in found.everywhere.notes[0]
    # every product of them is measured, so there is nothing left to plan
    assert isinstance(found.next, Missing)


def test_a_single_context_makes_a_report_that_says_what_is_missing():
    found = gather_material(small_task(GRID[:1]), contexts=[[2.0, 1.5]])
    assert "too few to leave some out" in found.held_out.why
    assert "No bounds" in found.everywhere.bounds.why


def test_what_makes_no_report_is_refused(task, model):
    with pytest.raises(ArgumentError, match="leave_out is 25; 1 to 24 of the 25 contexts"):
        gather_material(task, model=model, leave_out=25)
    with pytest.raises(ArgumentError, match="rows × 2 columns"):
        gather_material(task, model=model, contexts=[[1.0]])


def test_large_platforms_are_thinned_and_it_is_said(task, model, monkeypatch):
    monkeypatch.setattr(gather, "_MOST_CONTEXTS", 6)
    found = gather_material(task, model=model)
    assert found.everywhere.profiles.sizes["context"] == 6
    assert "has 12 contexts; 6 are shown" in found.everywhere.notes[0]


def test_thinned_levels_keep_the_ends_and_what_was_measured():
    axes = [np.arange(1.0, 101.0), np.array([1.0, 2.0, 3.0]), np.array([5.0])]
    measured = [[1.0, 37.0, 100.0], [1.0, 3.0], [5.0]]
    kept = thinned(axes, measured, 60)
    assert [len(axis) for axis in kept] == [20, 3, 1]
    assert {1.0, 37.0, 100.0} <= set(kept[0])
    assert [axis.tolist() for axis in thinned(axes, measured, 3)][2] == [5.0]
    assert np.prod([len(axis) for axis in thinned(axes, measured, 3)]) <= 3
