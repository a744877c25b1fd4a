"""Kriging of log ratios."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.machines import kriging
from msbgen.machines.features import KrigingFeatures
from msbgen.machines.kriging import KrigingSettings, fit_kriging

QUICK = KrigingSettings(tuned=60, steps=20)


def runs(n=80, seed=0, words=3, counters=4):
    rng = np.random.default_rng(seed)
    return KrigingFeatures(
        counters=rng.normal(size=(n, counters)),
        work=rng.normal(15, 2, n),
        time=rng.normal(-20, 1, n),
        configuration=rng.integers(words, size=n),
    )


def ratios(seen, noise=0.0, seed=1):
    """Two outputs: the first configuration is a case of its own, the others are alike."""
    odd = seen.configuration == 0
    made = np.stack(
        [np.sin(seen.counters[:, 0]) + odd, 0.3 * seen.time + 0.2 * odd * seen.counters[:, 1]],
        axis=1,
    )
    return made + noise * np.random.default_rng(seed).normal(size=made.shape)


def formula(a, b, p, places):
    """The covariance of two runs, in words of the module's head."""
    lengths, v = np.exp(p[:5]), np.exp(p[5:11])
    r = np.sqrt(np.mean((a["counters"] - b["counters"]) ** 2))
    w, z = abs(a["work"] - b["work"]), abs(a["time"] - b["time"])
    c = np.exp(-np.sum((places[a["configuration"]] - places[b["configuration"]]) ** 2))
    kappa = 1 / (1 + z**2 / (2 * lengths[2] ** 2))
    rho = 1 / (1 + w**2 / (2 * lengths[3] ** 2))
    far = rho * np.exp(-r / lengths[0]) * (v[2] + v[3] * c)
    near = np.exp(-r / lengths[1] - w / lengths[4]) * (v[4] + v[5] * c)
    return v[0] + kappa * (v[1] * c + far + near)


def rows_of(seen):
    names = ("counters", "work", "time", "configuration")
    return [
        {name: getattr(seen, name)[i] for name in names} for i in range(len(seen.work))
    ]  # fmt: skip


def test_predictions_are_the_posterior_mean_of_the_formula():
    seen, new = runs(40), runs(7, seed=5)
    wanted = ratios(seen, 0.1)
    field = fit_kriging(seen, wanted, np.arange(40) // 4, 3, QUICK, 0).fields[0]
    middle, spread = seen.counters.mean(axis=0), seen.counters.std(axis=0)
    one, other = (
        rows_of(replace(of, counters=((of.counters - middle) / spread).astype(np.float32)))
        for of in (seen, new)
    )
    own = np.array([[formula(a, b, field.parameters, field.places) for b in one] for a in one])
    cross = np.array([[formula(a, b, field.parameters, field.places) for b in one] for a in other])
    own += np.exp(field.parameters[11]) * np.eye(40)
    level, scale = wanted.mean(axis=0), wanted.std(axis=0)
    expected = level + scale * (cross @ np.linalg.solve(own, (wanted - level) / scale))
    np.testing.assert_allclose(field.predict(new), expected, rtol=1e-5, atol=1e-7)


def test_slopes_are_those_of_the_likelihood():
    seen = runs(30)
    rng = np.random.default_rng(2)
    wanted = ratios(seen, 0.1)
    pairs = kriging._Pairs.of(seen, seen)
    parameters = kriging._START + rng.normal(0, 0.3, 12)
    places = rng.normal(0, 0.5, (3, 2))
    _, slope, moves = kriging._misfit(pairs, wanted, parameters, places)

    def at(x):
        return kriging._misfit(pairs, wanted, x[:12], x[12:].reshape(3, 2))[0]

    x = np.concatenate([parameters, places.ravel()])
    steps = 1e-5 * np.eye(len(x))
    numeric = [(at(x + step) - at(x - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(np.concatenate([slope, moves.ravel()]), numeric, atol=1e-7)


def test_new_runs_of_learned_kinds_are_told():
    seen, new = runs(150), runs(60, seed=9)
    told = fit_kriging(seen, ratios(seen, 0.02), np.arange(150) // 3, 3, QUICK, 0).predict(new)
    assert (
        np.abs(told - ratios(new)).mean() < 0.3 * np.abs(ratios(new) - ratios(seen).mean(0)).mean()
    )


def test_configurations_that_behave_alike_come_to_lie_beside_each_other():
    seen = runs(200)
    places = fit_kriging(
        seen, ratios(seen, 0.02), np.arange(200), 3, KrigingSettings(tuned=200), 0
    ).fields[0].places  # fmt: skip
    alike, apart = kriging._likeness(places)[1, 2], kriging._likeness(places)[0, 1:]
    assert (apart < alike).all()


def test_outputs_known_of_other_runs_are_learned_each_from_its_own():
    seen = runs(60)
    wanted = ratios(seen, 0.1)
    gaps = wanted.copy()
    gaps[::3, 0] = np.nan
    program = np.arange(60) // 2
    part = fit_kriging(seen, gaps, program, 3, QUICK, 0)
    assert sorted(int(m) for field in part.fields for m in field.outputs) == [0, 1]
    new = runs(9, seed=3)
    known = np.flatnonzero(np.isfinite(gaps[:, 0]))
    shown = {int(field.outputs[0]): len(field.training.work) for field in part.fields}
    assert shown == {0: len(known), 1: 60}
    assert np.abs(part.predict(new) - ratios(new)).mean() < 0.5


def test_of_many_runs_some_are_kriged_from_and_all_are_answered(monkeypatch):
    seen, settings = runs(90), KrigingSettings(tuned=20, most=50, steps=5)
    model = fit_kriging(seen, ratios(seen), np.arange(90) // 9, 3, settings, 0)
    assert len(model.fields[0].training.work) == 50
    new = runs(40, seed=4)
    whole = model.predict(new)
    monkeypatch.setattr(kriging, "_AT_A_TIME", 7)
    np.testing.assert_allclose(model.predict(new), whole, rtol=1e-12)


def test_a_configuration_never_seen_is_like_none():
    seen = runs(60)
    model = fit_kriging(seen, ratios(seen), np.arange(60), 3, QUICK, 0)
    new = runs(5, seed=4)
    told = [model.predict(replace(new, configuration=np.full(5, c))) for c in (-1, 0)]
    assert np.isfinite(told[0]).all()
    assert not np.allclose(told[0], told[1])


@pytest.mark.parametrize("counters", [0, 2])
def test_runs_that_do_not_differ_are_predicted_as_they_are(counters):
    same = KrigingFeatures(
        np.zeros((6, counters)), np.zeros(6), np.zeros(6), np.zeros(6, dtype=int)
    )
    model = fit_kriging(same, np.full((6, 2), 0.7), np.zeros(6, dtype=int), 1, QUICK, 0)
    np.testing.assert_allclose(model.predict(same), 0.7)


def test_runs_with_more_or_less_work_than_any_are_beyond():
    seen = runs(30)
    wanted = ratios(seen)
    wanted[seen.work.argmax(), 0] = np.nan  # of the first output the greatest is not known
    model = fit_kriging(seen, wanted, np.arange(30), 3, QUICK, 0)
    work = np.array([seen.work.min() - 0.1, seen.work.min(), seen.work.max(), seen.work.max() + 1])
    new = KrigingFeatures(seen.counters[:4], work, seen.time[:4], seen.configuration[:4])
    want = [[True, True], [False, False], [True, False], [True, True]]
    np.testing.assert_array_equal(model.beyond(new), want)


def test_equal_seeds_give_equal_bits():
    seen = runs(60)
    one, two, other = (
        fit_kriging(seen, ratios(seen), np.arange(60) // 2, 3, QUICK, seed).predict(seen)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("name", "value"), [("tuned", 1), ("most", 0), ("places", 0)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ArgumentError, match=f"{name} is {value}"):
        KrigingSettings(**{name: value})
