"""Choices for programs that were measured in few contexts."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from choosing import Conditioned, Gaussian, programs
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.kernels.choice import Chooser, Limits
from msbgen.systems.kernels.choice.chooser import bounded_offers, highest_context, work_per_run
from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel
from msbgen.systems.kernels.choice.costs import Costs

TOP = 5


@pytest.fixture(scope="module")
def drawn():
    return programs(40 + 25, seed=4)


@pytest.fixture(scope="module")
def chooser(drawn):
    return Chooser(drawn.take(range(40)), Gaussian(), miscoverage=0.1)


def best(one, latency):
    return one.energy[0, one.time[0] <= latency].min()


def test_two_measurements_choose_almost_as_well_as_all(drawn, chooser):
    regret, late, highest_clock = [], [], []
    for i in range(40, 55):
        one = drawn.take([i])
        latency = 1.4 * one.time[0, TOP]
        limits = Limits(time=latency)
        known = one.only([TOP])
        known = one.only([TOP, chooser.next_probe(known, limits=limits)])
        choice = chooser.choose(known, limits=limits)
        assert choice.bound["time"] <= latency
        late.append(one.time[0, choice.context] > latency)
        regret.append(one.energy[0, choice.context] / best(one, latency) - 1)
        highest_clock.append(one.energy[0, TOP] / best(one, latency) - 1)
    assert np.mean(late) <= 0.1
    assert np.mean(regret) < 0.02
    assert np.mean(highest_clock) > 0.1


def test_measured_contexts_keep_their_values(drawn, chooser):
    one = drawn.take([50])
    view = chooser.offers(one.only([1, TOP]))
    for i in (1, TOP):
        assert view.expected["time"][i] == view.bound["time"][i] == one.time[0, i]
        assert view.expected["energy"][i] == view.bound["energy"][i] == one.energy[0, i]
    whole = chooser.offers(one)
    np.testing.assert_array_equal(whole.expected["time"], one.time[0])
    assert chooser.choose(one).context == int(one.energy[0].argmin())


def test_other_programs_of_the_family_are_not_used(drawn):
    others = drawn.take(range(41))
    known = drawn.take([40]).only([TOP])
    with_own = Chooser(others, Gaussian(), miscoverage=0.1).offers(known)
    without = Chooser(drawn.take(range(40)), Gaussian(), miscoverage=0.1).offers(known)
    np.testing.assert_allclose(with_own.bound["time"], without.bound["time"])


def test_without_limits_too_few_others_are_no_obstacle(drawn):
    """The bounds are at the smallest rate that the others support."""
    others, known = drawn.take(range(7)), drawn.take([50]).only([TOP])
    few, enough = (Chooser(others, Gaussian(), miscoverage=a) for a in (0.01, 0.125))
    assert few.supported_rate(known) == enough.supported_rate(known) == 0.125
    assert few.choose(known) == enough.choose(known)
    assert few.supported_rate(drawn.take([50])) == 0.01  # measured everywhere: bounds are values
    with pytest.raises(MeasurementError, match="at least 99 runs of as many different families"):
        few.offers(known)


def test_the_same_program_twice_gets_the_same_bounds_from_the_model_that_ships():
    """`ConfigurationModel.fit` returns the model itself."""
    drawn = programs(6, seed=1)
    others, known = drawn.take(range(5)), [drawn.take([i]).only([0, TOP]) for i in (3, 5)]
    chooser = Chooser(others, ConfigurationModel(), miscoverage=0.3)
    first = [chooser.offers(one) for one in known]
    for one, before in zip(known, first):
        fresh = Chooser(others, ConfigurationModel(), miscoverage=0.3).offers(one)
        for view in (fresh, chooser.offers(one)):
            np.testing.assert_array_equal(view.bound["time"], before.bound["time"])
            np.testing.assert_array_equal(view.bound["energy"], before.bound["energy"])


def sampled(count, noise, seed=5):
    """Programs at thirty clocks without noise, and as measured with it."""
    rng = np.random.default_rng(seed)
    clocks = np.linspace(0.5, 2.0, 30)
    share, base = rng.uniform(0.2, 1.0, (2, count, 1))
    time = np.exp(rng.normal(0, 1, (count, 1))) * (share / clocks + 1 - share)
    energy = time * (2 + base + 0.7 * clocks**3)
    names = tuple(f"p{i}" for i in range(count))
    made = Costs(names, names, ("clock",), ("GHz",), clocks[:, None], time, energy)
    seen, power = (x * np.exp(noise * rng.standard_normal(x.shape)) for x in (time, made.power))
    return made, replace(made, time=seen, energy=seen * power)


def test_noise_of_measurements_misleads_no_choice():
    """Less regret than the mean curve of the others, which noise bends too."""
    truth, seen = sampled(8, 0.1)
    known, regret, mean = [0, 14, 29], [], []
    for i, energy in enumerate(truth.energy):
        one = seen.take([i]).only(known)
        model = ConfigurationModel().fit(seen.without(one.families))
        seconds, watts = model.predict(one.time[0], one.power[0])
        curve = np.log(np.delete(seen.energy, i, axis=0)).mean(axis=0)
        regret.append(energy[(seconds * watts).argmin()] / energy.min() - 1)
        mean.append(energy[curve.argmin()] / energy.min() - 1)
    assert np.mean(regret) < 0.03
    assert np.mean(regret) < 0.7 * np.mean(mean)


def test_measured_contexts_have_the_noise_of_their_measurements():
    _, seen = sampled(6, 0.1)
    known, one = [0, 14, 29], seen.take([0])
    view = Chooser(seen, ConfigurationModel(), miscoverage=0.2).offers(one.only(known))
    assert (view.expected["time"][known] != one.time[0, known]).all()
    spread = np.log(view.bound["time"] / view.expected["time"])[known]
    assert (spread > 0.84 * 0.07).all()  # 80 % of a Gaussian are below 0.84 deviations
    assert (spread < 0.84 * 0.2).all()


class ReturnsItself(Gaussian, Conditioned):
    """A predictor whose `fit` returns the predictor itself, as most do."""

    def fit(self, others):
        vars(self).update(vars(super().fit(others)))
        return self


@pytest.mark.parametrize("kept", [9_000_000, 3 * 6**2])
def test_the_same_program_gets_the_same_bounds_again(drawn, monkeypatch, kept):
    """Each fit needs a copy of the predictor."""
    monkeypatch.setattr("msbgen.systems.kernels.choice.chooser._MOST_KEPT", kept)
    model = ReturnsItself()
    others, known = drawn.take(range(9)), [drawn.take([i]).only([TOP]) for i in (3, 4, 30)]
    chooser = Chooser(others, model, miscoverage=0.3)
    chooser.next_probe(known[2], limits=Limits(time=2 * float(known[2].time[0, TOP])))
    for one in (*known, *known):
        alone = Chooser(others, Gaussian(), miscoverage=0.3).offers(one)
        predictions = chooser.offers(one)
        np.testing.assert_array_equal(predictions.bound["time"], alone.bound["time"])
        np.testing.assert_array_equal(predictions.expected["energy"], alone.expected["energy"])
    assert not hasattr(model, "mean")


def test_work_is_a_resource_and_the_highest_clock_is_that_of_the_same_work():
    contexts = np.array([[b, c] for b in (1.0, 4.0) for c in (1.0, 2.0)])
    values = np.ones((1, 4))
    costs = Costs(("a",), ("a",), ("batch", "clock"), ("1", "GHz"), contexts, values, values)
    work = work_per_run(costs, "batch")
    assert work.tolist() == [1.0, 1.0, 4.0, 4.0]
    assert [highest_context(costs, work, i) for i in range(4)] == [1, 1, 3, 3]
    assert highest_context(costs, work_per_run(costs, ""), 0) == 3
    swapped = replace(costs, contexts=contexts[:, ::-1], resources=("clock", "batch"))
    swapped = replace(swapped, units=("GHz", "1"))
    assert highest_context(swapped, np.ones(4), 0) == 3
    with pytest.raises(ArgumentError, match="work is 'batches'"):
        work_per_run(costs, "batches")


def test_programs_that_cannot_be_decided_are_refused(drawn, chooser, monkeypatch):
    one = drawn.take([50])
    with pytest.raises(MeasurementError, match="'p50' was measured in no context"):
        chooser.choose(one.only([]))
    with pytest.raises(ArgumentError, match="there are 2 programs"):
        chooser.choose(drawn.take([50, 51]))
    with pytest.raises(ArgumentError, match="other contexts"):
        chooser.choose(replace(one, contexts=one.contexts + 1))
    with pytest.raises(MeasurementError, match="measured in every context"):
        chooser.next_probe(one)
    with pytest.raises(ArgumentError, match="objective is 'power'"):
        chooser.next_probe(one.only([TOP]), objective="power")
    with pytest.raises(MeasurementError, match=r"the lowest bound \(clock=2 GHz\)"):
        chooser.choose(one.only([TOP]), limits=Limits(time=1e-9))
    with pytest.raises(MeasurementError, match="at least 99 runs of as many different families"):
        Chooser(drawn.take(range(40)), Gaussian(), miscoverage=0.01).choose(
            one.only([TOP]), limits=Limits(time=9e9)
        )
    monkeypatch.setattr("msbgen.systems.kernels.choice.chooser._MOST_CONTEXTS", 5)
    with pytest.raises(MeasurementError, match="6 contexts to predict a program in; at most 5"):
        chooser.choose(one.only([TOP]))
    assert chooser.choose(one).expected["energy"] == one.energy.min()
    with pytest.raises(ArgumentError, match="miscoverage is 0"):
        Chooser(drawn, Gaussian(), miscoverage=0.0)


def bounds_of(costs, time, energy=None):
    made = {"duration_bound": ("context", time)}
    if energy is not None:
        made["energy_bound"] = ("context", energy)
    return xr.Dataset(made, {"clock": ("context", costs.contexts[:, 0])})


def test_bounds_on_runs_replace_margins(drawn):
    one = drawn.take([44])
    seconds, joules = 1.5 * one.time[0], 2.0 * one.energy[0]
    order = [3, 1, 0, 5, 4, 2]
    view = bounded_offers(one, bounds_of(one, seconds, joules).isel(context=order), np.ones(6))
    np.testing.assert_array_equal(view.bound["time"], seconds)
    np.testing.assert_array_equal(view.bound["energy"], joules)
    np.testing.assert_array_equal(view.expected["time"], one.time[0])
    below = bounded_offers(one, bounds_of(one, 0.5 * one.time[0]), np.ones(6))
    np.testing.assert_array_equal(below.bound["time"], one.time[0])  # no bound is below the mean
    np.testing.assert_array_equal(below.bound["energy"], one.energy[0])
    with pytest.raises(ProfileError, match=r"b.nc: has no bound for clock=2 GHz"):
        bounded_offers(
            one, bounds_of(one, seconds).isel(context=range(5)), np.ones(6), source="b.nc"
        )
    with pytest.raises(ProfileError, match=r"b.nc: 'energy_bound' is nan in clock=.*; a positive"):
        bounded_offers(one, bounds_of(one, seconds, np.nan * joules), np.ones(6), source="b.nc")
    square = bounds_of(one, seconds).assign_coords(clock=(("context", "two"), np.ones((6, 2))))
    cube = bounds_of(one, seconds).assign(energy_bound=(("context", "two"), np.ones((6, 2))))
    for wrong in (xr.Dataset(), square, cube):
        with pytest.raises(ProfileError, match="duration_bound and the resources clock over"):
            bounded_offers(one, wrong, np.ones(6))
    with pytest.raises(MeasurementError, match=r"'p44' has no time and energy in clock=0.5 GHz"):
        bounded_offers(one.only([TOP]), bounds_of(one, seconds), np.ones(6))


def test_several_probes_are_different_and_begin_with_the_next(drawn, chooser):
    known = drawn.take([50]).only([TOP])
    probes = chooser.next_probes(known, 3)
    assert probes[0] == chooser.next_probe(known)
    assert len({*probes, TOP}) == 4
    assert len(chooser.next_probes(known, 99)) == 5
    with pytest.raises(ArgumentError, match="count is 0"):
        chooser.next_probes(known, 0)


def test_a_single_run_errs_most_for_programs_beyond_the_few_others():
    """One run does not show how much of the time scales: only the others tell."""
    far = []
    for seed in range(12):
        drawn = programs(7, seed=seed)
        time, energy = drawn.time.copy(), drawn.energy.copy()
        time[6, :-1] = energy[6, :-1] = np.nan
        costs = replace(drawn, time=time, energy=energy)
        chooser = Chooser(costs, ConfigurationModel(), miscoverage=0.2)
        found = chooser.offers(costs.take([6]), supported=True)
        at, true = int(np.argmin(found.expected["energy"])), drawn.energy
        relative = true / true[:, -1:]
        others = relative[:6].min(axis=0), relative[:6].max(axis=0)
        is_beyond = ((relative[6] < others[0]) | (relative[6] > others[1])).any()
        error = abs(found.expected["energy"][at] / true[6, at] - 1)
        assert error < (0.25 if is_beyond else 0.15)
        assert true[6, at] < 1.02 * true[6].min()  # the choice is right in either case
        far.append(is_beyond)
    assert 0 < sum(far) < len(far)


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("count", [5, 30])
def test_new_runs_of_measured_contexts_exceed_the_bounds_as_often_as_nominal(everywhere, count):
    """Of 5 runs the largest bounds a sixth of new ones, of 30 the quantile a tenth."""
    rng, others, above = np.random.default_rng(0), programs(12), []
    for seed in range(40):
        truth = programs(1, seed=100 + seed, prefix="new")
        n = len(truth.contexts) if everywhere else 2
        noise = np.exp(0.2 * rng.standard_normal((2, n, count + 200)))
        runs = np.stack([truth.time[0, :n], truth.energy[0, :n]])[..., None] * noise
        middle = np.full((2, 1, len(truth.contexts)), np.nan)
        middle[:, 0, :n] = np.median(runs[..., :count], axis=2)
        known = {(truth.programs[0], c): runs[:, c, :count] for c in range(n)}
        program = replace(truth, time=middle[0], energy=middle[1], runs=known)
        view = Chooser(others, Gaussian(), miscoverage=0.1).offers(program)
        powers = runs[1] / runs[0]
        bounds = (view.bound["time"], view.bound["energy"], view.bound["power"])
        for values, bound in zip((*runs, powers), bounds):
            above.append((values[:, count:] > bound[:n, None]).mean())
    assert np.mean(above) < (0.11 if count == 30 else 0.19)
    assert np.mean(above) > 0.05
