"""Kriging of log ratios."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.machines import kriging
from msbgen.systems.machines.features import KrigingFeatures
from msbgen.systems.machines.kriging import KrigingSettings, fit_kriging

QUICK = KrigingSettings(tuned=60, steps=20)


def runs(n=80, seed=0, words=3, counters=4):
    rng = np.random.default_rng(seed)
    return KrigingFeatures(
        counters=rng.normal(size=(n, counters)),
        work=rng.normal(15, 2, n),
        time=rng.normal(-20, 1, n),
        configuration=rng.integers(words, size=n),
    )


def ratios(known, noise=0.0, seed=1):
    """Two outputs: the first configuration is a case of its own, the others are alike."""
    odd = known.configuration == 0
    made = np.stack(
        [np.sin(known.counters[:, 0]) + odd, 0.3 * known.time + 0.2 * odd * known.counters[:, 1]],
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


def rows_of(known):
    return [
        {name: values[i] for name, values in vars(known).items()} for i in range(len(known.work))
    ]


def test_predictions_are_the_posterior_mean_of_the_formula():
    known, new = runs(40), runs(7, seed=5)
    wanted = ratios(known, 0.1)
    field = fit_kriging(known, wanted, np.arange(40) // 4, 3, QUICK, 0).fields[0]
    middle, spread = known.counters.mean(axis=0), known.counters.std(axis=0)
    one, other = (
        rows_of(replace(of, counters=((of.counters - middle) / spread).astype(np.float32)))
        for of in (known, new)
    )
    square = np.array([[formula(a, b, field.parameters, field.places) for b in one] for a in one])
    cross = np.array([[formula(a, b, field.parameters, field.places) for b in one] for a in other])
    square += np.exp(field.parameters[11]) * np.eye(40)
    level, scale = wanted.mean(axis=0), wanted.std(axis=0)
    expected = level + scale * (cross @ np.linalg.solve(square, (wanted - level) / scale))
    np.testing.assert_allclose(field.predict(new), expected, rtol=1e-5, atol=1e-7)


def test_slopes_are_those_of_the_likelihood():
    known = runs(30)
    rng = np.random.default_rng(2)
    wanted = ratios(known, 0.1)
    pairs = kriging._Pairs.of(known, known)
    parameters = kriging._START + rng.normal(0, 0.3, 12)
    places = rng.normal(0, 0.5, (3, 2))
    _, slope, moves = kriging._misfit(pairs, wanted, parameters, places)

    def at(x):
        return kriging._misfit(pairs, wanted, x[:12], x[12:].reshape(3, 2))[0]

    x = np.concatenate([parameters, places.ravel()])
    steps = 1e-5 * np.eye(len(x))
    numeric = [(at(x + step) - at(x - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(np.concatenate([slope, moves.ravel()]), numeric, atol=1e-7)


def test_outputs_known_of_other_runs_are_learned_each_from_its_own():
    known = runs(60)
    wanted = ratios(known, 0.1)
    gaps = wanted.copy()
    gaps[::3, 0] = np.nan
    program = np.arange(60) // 2
    part = fit_kriging(known, gaps, program, 3, QUICK, 0)
    assert sorted(int(m) for field in part.fields for m in field.outputs) == [0, 1]
    new = runs(9, seed=3)
    rows = np.flatnonzero(np.isfinite(gaps[:, 0]))
    runs_used = {int(field.outputs[0]): len(field.training.work) for field in part.fields}
    assert runs_used == {0: len(rows), 1: 60}
    assert np.abs(part.predict(new) - ratios(new)).mean() < 0.5


def test_of_many_runs_a_sample_is_kriged_from_and_all_are_predicted(monkeypatch):
    known, settings = runs(90), KrigingSettings(tuned=20, most=50, steps=5)
    model = fit_kriging(known, ratios(known), np.arange(90) // 9, 3, settings, 0)
    assert len(model.fields[0].training.work) == 50
    new = runs(40, seed=4)
    whole = model.predict(new)
    monkeypatch.setattr(kriging, "_AT_A_TIME", 7)
    np.testing.assert_allclose(model.predict(new), whole, rtol=1e-12)


def test_a_configuration_never_seen_is_like_none():
    known = runs(60)
    model = fit_kriging(known, ratios(known), np.arange(60), 3, QUICK, 0)
    new = runs(5, seed=4)
    predicted = [model.predict(replace(new, configuration=np.full(5, c))) for c in (-1, 0)]
    assert np.isfinite(predicted[0]).all()
    assert not np.allclose(predicted[0], predicted[1])


@pytest.mark.parametrize("counters", [0, 2])
def test_runs_that_do_not_differ_are_predicted_as_they_are(counters):
    same = KrigingFeatures(
        np.zeros((6, counters)), np.zeros(6), np.zeros(6), np.zeros(6, dtype=int)
    )
    model = fit_kriging(same, np.full((6, 2), 0.7), np.zeros(6, dtype=int), 1, QUICK, 0)
    np.testing.assert_allclose(model.predict(same), 0.7)


def test_runs_with_more_or_less_work_than_any_are_beyond():
    known = runs(30)
    wanted = ratios(known)
    wanted[known.work.argmax(), 0] = np.nan  # of the first output the greatest is not known
    model = fit_kriging(known, wanted, np.arange(30), 3, QUICK, 0)
    work = np.array(
        [known.work.min() - 0.1, known.work.min(), known.work.max(), known.work.max() + 1]
    )
    new = KrigingFeatures(known.counters[:4], work, known.time[:4], known.configuration[:4])
    want = [[True, True], [False, False], [True, False], [True, True]]
    np.testing.assert_array_equal(model.beyond(new), want)


@pytest.mark.parametrize(("name", "value"), [("tuned", 1), ("most", 0), ("places", 0)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ArgumentError, match=f"{name} is {value}"):
        KrigingSettings(**{name: value})
