"""The search for the cheapest context, on tables whose truth is known."""

import numpy as np
import pytest

from msbgen.answers.choose.costs import context_costs
from msbgen.answers.plan.plan import Budget
from msbgen.core.contexts import combinations_of
from msbgen.core.errors import ArgumentError
from msbgen.data.build import make_profiles
from msbgen.data.schema import context_table
from msbgen.output.find.search import Question, find_context
from msbgen.output.find.sources import Table

COST = {"threads": 1.0, "memory": 0.5}


def table(runs=20, noise=0.01, seed=0):
    """Seconds of a program over 12 numbers of threads and 6 sizes of memory."""
    contexts = combinations_of([np.arange(1.0, 13.0), 2.0 ** np.arange(6)])
    seconds = 1.0 + 12.0 / contexts[:, 0] + 3.0 / contexts[:, 1]
    rng = np.random.default_rng(seed)
    durations = seconds[:, None] * np.exp(rng.normal(0.0, noise, (len(contexts), runs)))
    names = ("threads", "memory")
    return make_profiles(
        resources={
            name: {"units": "1", "long_name": name, "levels": np.unique(contexts[:, k])}
            for k, name in enumerate(names)
        },
        contexts=contexts,
        durations=durations,
        attrs={"task": "made"},
    )


def ask(deadline=5.0, runs=30, **given):
    return Question(deadline, COST, Budget(contexts=runs), **given)


def best_cost(dataset, deadline, late=0.1):
    kept = (dataset["duration"].values > deadline).mean(axis=1) <= late
    return context_costs(dataset, COST)[kept].min()


@pytest.mark.parametrize("deadline", [3.5, 5.0, 8.0])
def test_a_choice_keeps_its_deadline_and_costs_little_more_than_the_best(deadline):
    dataset = table()
    found = find_context(Table(dataset, {}), ask(deadline))
    (choice,) = found.choice
    row = (context_table(dataset) == choice.context).all(axis=1).argmax()
    assert (dataset["duration"].values[row] > deadline).mean() <= 0.1
    assert choice.cost <= 1.25 * best_cost(dataset, deadline)
    assert found.runs <= 30
    assert found.is_kept


def test_runs_are_those_of_the_table_in_their_order_and_none_is_used_twice():
    dataset = table()
    saved = []
    found = find_context(Table(dataset, {}), ask(), save=saved.append)
    for data in [*saved, found.measured]:
        rows = [(context_table(dataset) == c).all(axis=1).argmax() for c in context_table(data)]
        for row, runs in zip(rows, data["duration"].values):
            runs = runs[np.isfinite(runs)]
            np.testing.assert_array_equal(runs, dataset["duration"].values[row, : len(runs)])
    assert np.isfinite(found.measured["duration"].values).sum() + found.fresh == found.runs


def test_fixed_levels_stay():
    found = find_context(Table(table(), {"memory": 8.0}), ask())
    assert found.choice[0].context[1] == 8.0
    assert (found.bounds["memory"].values == 8.0).all()


def test_equal_questions_have_equal_answers():
    first, again = (find_context(Table(table(), {}), ask()).as_dict() for _ in range(2))
    seconds = [answer.pop("seconds") for answer in (first, again)]
    assert first == again
    assert seconds[0] == pytest.approx(seconds[1], rel=0.5)


def test_late_fresh_runs_are_told():
    dataset = table(noise=0.002)
    slow = dataset["duration"].values.copy()
    slow[:, 1:] *= 1.5  # the machine slows down after every first run
    dataset = dataset.assign(duration=(dataset["duration"].dims, slow, dataset["duration"].attrs))
    found = find_context(Table(dataset, {}), ask())
    assert found.late >= found.fresh - 1 > 0  # the first run there may be one of the fit
    assert not found.is_kept
    assert "does not keep" in found.describe()


def test_a_deadline_that_nothing_keeps_is_said():
    found = find_context(Table(table(), {}), ask(0.5))
    assert found.choice == ()
    assert "lowest bound" in found.reason


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (dict(runs=3), ArgumentError, "5 or more are wanted"),
        (dict(miscoverage=0.0), ArgumentError, "miscoverage"),
        (dict(deadline=-1.0), ArgumentError, "positive number"),
    ],
)
def test_a_wrong_question_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        find_context(Table(table(), {}), ask(**given))


@pytest.mark.parametrize(
    ("fixed", "message"), [({"size": 4.0}, "no resource"), ({"memory": 3.0}, "no context has")]
)
def test_a_level_that_cannot_be_fixed_is_named(fixed, message):
    with pytest.raises(ArgumentError, match=message):
        Table(table(), fixed)
