"""The choice on arrays, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.constrained_choice import ContextPredictions, Limits, choose, pareto_front
from msbgen.core.errors import ArgumentError, MeasurementError

# few different values, so that ties come
VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 7.0])
CONTEXTS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=12)


def predictions(rows):
    """Times are bounded by themselves and a third number."""
    time, energy, more = np.array(rows).T
    return replace(ContextPredictions.exact(time, energy), time_bound=time + more)


@given(st.just([]) | CONTEXTS)
def test_the_front_holds_what_nothing_dominates(rows):
    time, energy = np.array(rows).reshape(-1, 3).T[:2]
    front = pareto_front(time, energy).tolist()

    def dominated(i):
        return any(
            (t <= time[i] and e <= energy[i] and (t < time[i] or e < energy[i]))
            or (j < i and t == time[i] and e == energy[i])
            for j, (t, e) in enumerate(zip(time, energy))
        )

    assert sorted(front) == [i for i in range(len(rows)) if not dominated(i)]
    assert (np.diff(time[front]) > 0).all()
    assert (np.diff(energy[front]) < 0).all()


# powers of two: their products are exact, so that ties stay ties in any unit
@given(CONTEXTS, VALUES, st.sampled_from(["energy", "edp", "time"]), st.sampled_from([0.5**30, 1]))
def test_the_choice_is_the_least_of_all_that_keep_the_limit(rows, latency, objective, unit):
    view, latency = predictions(unit * np.array(rows)), unit * latency
    cost = {"energy": lambda t, e: e, "edp": lambda t, e: t * e, "time": lambda t, e: t}[objective]
    allowed = [
        (cost(t, e), t, i)
        for i, (t, e, b) in enumerate(zip(view.time, view.energy, view.time_bound))
        if b <= latency
    ]
    limits = Limits(latency=latency)
    if not allowed:
        with pytest.raises(MeasurementError, match="latency"):
            choose(view, objective=objective, limits=limits)
        return
    assert choose(view, objective=objective, limits=limits).context == min(allowed)[2]


def test_work_divides_energy_and_not_latency():
    view = ContextPredictions.exact([1.0, 3.0], [2.0, 5.0], work=[1.0, 4.0])
    assert choose(view).context == 1
    assert choose(view, limits=Limits(latency=2.0)).context == 0
    assert choose(view, objective="time").context == 1


def test_an_objective_may_be_anything_that_costs():
    """As a graph's schedule that values the temperature it leaves behind."""
    view = ContextPredictions.exact([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    heat = np.array([9.0, 0.0, 5.0])
    assert choose(view, objective=lambda o: o.energy + heat).context == 1
    for costs, state in (([1.0, 2.0], r"of shape \(2,\)"), ([1.0, np.nan, 2.0], "missing")):
        with pytest.raises(ArgumentError, match=f"are {state}; a number for each of 3 contexts"):
            choose(view, objective=lambda _, costs=costs: np.array(costs))


def test_an_unreachable_bound_names_the_fastest():
    view = ContextPredictions.exact([2.0, 0.5, 1.0], [1.0, 4.0, 2.0])
    with pytest.raises(MeasurementError) as message:
        choose(view, limits=Limits(latency=0.1), name=["slow", "fast", "middle"].__getitem__)
    assert str(message.value) == (
        "latency is 0.1 s, which no context keeps; 0.5 s or more is wanted, what the fastest "
        "(fast) takes at most."
    )


def test_limits_that_exclude_each_other_are_told_of_together():
    view = ContextPredictions.exact([1.0, 2.0], [8.0, 4.0])  # 8 W, 2 W
    with pytest.raises(MeasurementError, match=r"latency 1.5 s, power 4 W, .* keeps together"):
        choose(view, limits=Limits(latency=1.5, power=4.0))
    with pytest.raises(MeasurementError, match=r"power is 1 W.* coolest \(context 1\)"):
        choose(view, limits=Limits(power=1.0))
    with pytest.raises(MeasurementError, match=r"energy is 1 J.* cheapest \(context 1\)"):
        choose(view, limits=Limits(energy=1.0))


def test_invalid_predictions_and_arguments_are_refused():
    with pytest.raises(ArgumentError, match="time is 0 in context 1"):
        ContextPredictions.exact([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ArgumentError, match="energy has shape"):
        ContextPredictions.exact([1.0, 2.0], [1.0])
    with pytest.raises(ArgumentError, match="objective is 'power'"):
        choose(ContextPredictions.exact([1.0], [1.0]), objective="power")
    with pytest.raises(ArgumentError, match="latency is nan"):
        Limits(latency=np.nan)
    with pytest.raises(ArgumentError, match="one number each"):
        pareto_front([1.0], [1.0, 2.0])
