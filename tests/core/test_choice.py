"""The choice on arrays, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.choice import InfeasibleError, Limits, Offers, choose, pareto_front
from msbgen.core.errors import ArgumentError

# few different values, so that ties come
VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 7.0])
CONTEXTS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=12)


def offers_of(rows, objective="energy"):
    """Times are bounded by themselves and a third number."""
    time, energy, more = np.array(rows).T
    return Offers.of_runs(time, energy, objective=objective, bound={"time": time + more})


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
def test_the_choice_is_the_least_of_all_that_keep_the_limit(rows, longest, objective, unit):
    offers, longest = offers_of(unit * np.array(rows), objective), unit * longest
    cost = {"energy": lambda t, e: e, "edp": lambda t, e: t * e, "time": lambda t, e: t}[objective]
    costs = [
        (cost(unit * t, unit * e), unit * (t + more), i) for i, (t, e, more) in enumerate(rows)
    ]
    allowed = sorted(each for each in costs if each[1] <= longest)
    limits = Limits(time=longest)
    if not allowed:
        with pytest.raises(InfeasibleError, match="limit of time"):
            choose(offers, limits)
        return
    assert choose(offers, limits).context == allowed[0][2]
    assert offers.within(limits).tolist() == [i for *_, i in allowed]


@given(CONTEXTS, VALUES, VALUES)
def test_the_cheapest_expected_is_what_only_a_bound_refuses(rows, longest, below):
    offers, limits = offers_of(rows), Limits(time=longest)
    wanted = min(
        ((e, t, i) for i, (t, e, _) in enumerate(rows) if t <= longest and e < below),
        default=(0, 0, None),
    )
    assert offers.cheapest_expected(limits, below) == wanted[2]


def test_work_divides_energy_and_not_time():
    runs = [1.0, 3.0], [2.0, 5.0]
    offers = Offers.of_runs(*runs, work=[1.0, 4.0])
    assert choose(offers).context == 1
    assert choose(offers, Limits(time=2.0)).context == 0
    assert choose(Offers.of_runs(*runs, objective="time", work=[1.0, 4.0])).context == 1


def test_an_objective_may_be_anything_that_costs():
    """As a graph's schedule that values the temperature it leaves behind."""
    runs = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    heat = np.array([9.0, 0.0, 5.0])
    assert choose(Offers.of_runs(*runs, objective=np.array(runs[1]) + heat)).context == 1
    with pytest.raises(ArgumentError, match="expected time has shape"):
        Offers.of_runs(*runs, objective=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="are missing; a number for each"):
        Offers.of_runs(*runs, objective=[1.0, np.nan, 2.0])


def test_a_choice_has_the_values_of_its_context():
    chosen = choose(offers_of([(1.0, 5.0, 0.5), (2.0, 3.0, 1.5)]))
    assert (chosen.context, chosen.cost) == (1, 3.0)
    assert chosen.expected == {"time": 2.0, "energy": 3.0, "power": 1.5}
    assert chosen.bound == {"time": 3.5, "energy": 3.0, "power": 1.5}


def test_a_limit_that_cannot_be_kept_names_the_least_that_can():
    names = ["slow", "fast", "middle"].__getitem__
    offers = Offers.of_runs([2.0, 0.51234567, 1.0], [1.0, 4.0, 2.0], describe=names)
    with pytest.raises(InfeasibleError) as message:
        choose(offers, Limits(time=0.1))
    assert str(message.value) == (
        "limit of time is 0.1 s, which no context keeps; 0.5124 s or more is wanted, the lowest "
        "bound (fast)."
    )
    assert choose(offers, Limits(time=0.5124)).context == 1


def test_of_limits_that_exclude_each_other_the_last_one_is_named_within_the_others():
    offers = Offers.of_runs([1.0, 2.0], [8.0, 4.0])  # 8 W, 2 W
    with pytest.raises(InfeasibleError, match=r"time is 1.5 s, .* within 4 W keeps; 2 s or more"):
        choose(offers, Limits(time=1.5, power=4.0))
    with pytest.raises(InfeasibleError, match=r"within 4 W and 4 J keeps; 2 s .*\(context 1\)"):
        choose(offers, Limits(time=1.5, power=4.0, energy=4.0))
    with pytest.raises(InfeasibleError, match=r"power is 1 W.* lowest bound \(context 1\)"):
        choose(offers, Limits(power=1.0))


def test_what_may_not_be_chosen_is_not():
    offers = Offers.of_runs([1.0, 2.0], [8.0, 4.0])
    first = Offers(offers.cost, offers.expected, offers.bound, np.array([True, False]))
    assert choose(first).context == 0
    with pytest.raises(InfeasibleError, match=r"8 W or more .*\(context 0\)"):
        choose(first, Limits(power=4.0))
    assert first.cheapest_expected(Limits(power=4.0)) is None


def test_invalid_offers_and_arguments_are_refused():
    with pytest.raises(ArgumentError, match="expected time is 0 in context 1"):
        Offers.of_runs([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ArgumentError, match="bound of energy is inf in context 0"):
        Offers.of_runs([1.0], [1.0], bound={"energy": np.array([np.inf])})
    with pytest.raises(ArgumentError, match="energy \\(1,\\); one number each"):
        Offers.of_runs([1.0, 2.0], [1.0])
    with pytest.raises(ArgumentError, match="objective is 'power'"):
        Offers.of_runs([1.0], [1.0], objective="power")
    for value in (np.nan, 0.0, True):
        with pytest.raises(ArgumentError, match=f"limit of time is {value}"):
            Limits(time=value)
    assert Limits(temperature=-5.0).temperature == -5.0
    with pytest.raises(ArgumentError, match="one number each"):
        pareto_front([1.0], [1.0, 2.0])
