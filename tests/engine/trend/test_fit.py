from dataclasses import replace

import numpy as np
import pytest

from forged import restored
from msbgen.core.errors import ArgumentError
from msbgen.engine.trend.caps import throttled
from msbgen.engine.trend.fit import fit_trend
from msbgen.engine.trend.search import ParameterChoice
from msbgen.engine.trend.time_model import Windows
from rooflines import BANDWIDTH, KNOWN, grid, noisy, roofline


def log_log_multilinear(contexts, states, queries):
    from scipy.interpolate import RegularGridInterpolator

    axes = [np.unique(contexts[:, r]) for r in range(contexts.shape[1])]
    values = np.log(states).reshape(*(len(a) for a in axes), *states.shape[1:])
    return np.exp(RegularGridInterpolator([np.log(a) for a in axes], values)(np.log(queries)))


def relative(prediction, truth):
    """Error of time, weighted by the time itself."""
    return np.abs(prediction - truth)[..., 0].sum() / truth[..., 0].sum()


def test_a_cap_is_found_and_beats_multilinear_interpolation_threefold():
    states = noisy(roofline(KNOWN))
    queries = grid([1.4, 2.8, 5.6, 11.0], [1.2, 1.8])
    trend = fit_trend(KNOWN, states)
    (cap,) = trend.caps
    assert (cap.counter, cap.resource) == (1, 0)
    assert cap.rate == pytest.approx(300.0, rel=0.03)
    truth = roofline(queries)
    ours = relative(trend.predict(queries), truth)
    assert ours <= relative(log_log_multilinear(KNOWN, states, queries), truth) / 3


def misplaced(states, segments, scale=0.6):
    """States whose bins, not their sums over segments, are wrong: in all quantities alike."""
    shares = np.exp(scale * np.random.default_rng(1).standard_normal(states.shape[:2]))[..., None]
    parts, jitter = (a.reshape(len(a), segments, -1, a.shape[2]) for a in (states, shares))
    wrong = parts * jitter
    return (wrong * (parts.sum(axis=2) / wrong.sum(axis=2))[:, :, None]).reshape(states.shape)


def test_a_cap_is_found_in_segments_where_the_noise_of_bins_hides_it():
    known, segments = grid(np.geomspace(1.0, 16.0, 9), [1.0, 1.5, 2.0]), 4
    states = misplaced(roofline(known), segments)
    assert fit_trend(known, states).caps == ()
    (cap,) = fit_trend(known, states, segments=segments).caps
    assert (cap.counter, cap.resource) == (1, 0)
    assert cap.rate == pytest.approx(300.0, rel=0.05)
    free = misplaced(roofline(known, np.inf), segments)
    assert fit_trend(known, free, segments=segments).caps == ()


def test_a_wide_knee_is_found_with_its_width():
    known = grid(np.geomspace(1.0, 16.0, 7), [1.0, 1.5, 2.0])
    states = roofline(known, np.inf)
    least = states[..., 1] / (300.0 * known[:, :1])
    states[..., 0] = throttled(states[..., 0], least, 0.6)[0]
    (cap,) = fit_trend(known, states).caps
    assert 0.5 < cap.width < 0.7  # no width that the search starts from


def error_of(trend):
    """Mean squared error of the logarithm of time in left-out contexts."""
    share = trend.states[..., 0].mean(axis=0) / trend.states[..., 0].mean(axis=0).sum()
    return (np.log(trend.left_out_alone / trend.states)[..., 0] ** 2).mean(axis=0) @ share


def test_the_local_form_is_taken_where_left_out_contexts_gain():
    known = grid(np.geomspace(1.0, 16.0, 9), [1.0, 1.5, 2.0])
    # a chequerboard, which no product of smooth curves follows
    high = (known[:, :1] > 4) != (known[:, 1:] > 1.2)
    states = noisy(np.where(high, 2.7, 1.0)[..., None] * np.ones((1, 6, 1)), scale=0.1, seed=1)
    chosen = fit_trend(known, states, coordinates="linear")
    smooth = fit_trend(known, states, coordinates="linear", form="gaussian-process")
    assert chosen.form == "local-linear"
    assert error_of(chosen) < error_of(smooth)


def test_the_form_is_chosen_with_its_cap(monkeypatch):
    states = noisy(roofline(KNOWN))
    forms = [
        fit_trend(KNOWN, states, coordinates="log", form=form)
        for form in ("gaussian-process", "local-linear")
    ]
    assert all(len(trend.caps) == 1 for trend in forms)
    monkeypatch.setattr(ParameterChoice, "error", -1.0)  # as if better without a cap
    chosen = fit_trend(KNOWN, states, coordinates="log")
    better = min(forms, key=error_of)
    assert chosen.form == better.form
    np.testing.assert_array_equal(chosen.predict(KNOWN), better.predict(KNOWN))


def test_segments_need_not_divide_the_bins_nor_states_vary():
    (cap,) = fit_trend(KNOWN, roofline(KNOWN), segments=7).caps
    assert cap.rate == pytest.approx(300.0, rel=0.03)
    for segments in (0, 25):
        with pytest.raises(ArgumentError, match=f"segments is {segments}; 1 to 24"):
            fit_trend(KNOWN, roofline(KNOWN), segments=segments)
    same = fit_trend(KNOWN, np.full((len(KNOWN), 8, 2), 0.5), segments=2)
    np.testing.assert_allclose(same.predict([[3.0, 1.2]]), 0.5, rtol=1e-6)


@pytest.mark.parametrize("form", ["gaussian-process", "local-linear"])
def test_power_laws_are_predicted_at_unseen_contexts_of_a_scattered_design(form):
    rng = np.random.default_rng(1)
    known = np.exp(rng.uniform(0, 2, (60, 3)))
    queries = np.exp(rng.uniform(0.2, 1.8, (40, 3)))

    def state(contexts):
        power = np.array([[-0.5, -0.2, -1.0], [0.3, 0.0, 0.0]])
        return np.exp(np.log(contexts) @ power.T)[:, None, :] * np.ones((1, 6, 1))

    trend = fit_trend(known, state(known), form=form, find_caps=False)
    assert trend.form == form
    np.testing.assert_allclose(trend.predict(queries), state(queries), rtol=0.05)


@pytest.mark.parametrize("form", ["gaussian-process", "local-linear"])
def test_left_out_states_are_those_of_a_trend_of_the_others(form):
    rng = np.random.default_rng(2)
    known = np.exp(rng.uniform(0, 2, (14, 2)))
    states = np.exp(rng.normal(0, 0.3, (14, 5, 2)) - np.log(known[:, :1, None]))
    trend = fit_trend(known, states, form=form, find_caps=False, coordinates="linear")
    spans = np.sort(known, axis=0)
    for i in range(14):
        if np.any((known[i] == spans[0]) | (known[i] == spans[-1])):
            continue  # without it the coordinates would be other ones
        rest = np.delete(np.arange(14), i)
        sums = tuple(replace(t, contexts=known[rest]) for t in trend.sums)
        others = replace(trend, contexts=known[rest], sums=sums).refit(states[rest])
        predicted = others.predict(known[[i]])[0]
        # the mean over the contexts and the limits are those of the others there
        np.testing.assert_allclose(trend.left_out_alone[i], predicted, rtol=0.03)


def test_distances_discount_a_resource_without_effect():
    known = grid(BANDWIDTH, [1.0, 1.3, 1.6, 2.0, 2.5])
    states = noisy(
        np.exp(np.sin(6 * np.log(known[:, 1:])))[:, None, :] * np.ones((1, 8, 1)), scale=0.001
    )
    trend = fit_trend(known, states, coordinates="log", form="gaussian-process")
    ends = trend.distance([[16.0, 1.0], [1.0, 2.5]])[:, 0]
    assert trend.distance(known)[0, 0] == 0.0
    assert ends[1] > 2 * ends[0]


def test_the_free_share_is_low_where_a_cap_binds():
    capped = fit_trend(KNOWN, noisy(roofline(KNOWN)))
    share = capped.times([[1.0, 1.5], [16.0, 1.5]])[1]
    assert share.shape == (2, 24)
    assert share[0, -1] < 0.05 < 0.95 < share[1, -1]
    plain = fit_trend(KNOWN, roofline(KNOWN, np.inf))
    assert np.all(plain.times(KNOWN)[1] == 1.0)
    # it is how far the time follows that of everything but the cap
    slower = replace(capped.caps[0], mean=capped.caps[0].mean + 1e-4)
    query = grid([1.4, 2.8, 5.6], [1.2])
    times = [t.predict(query)[..., 0] for t in (capped, replace(capped, caps=(slower,)))]
    np.testing.assert_allclose(
        np.log(times[1] / times[0]) / 1e-4, capped.times(query)[1], atol=5e-3
    )


@pytest.mark.parametrize("known", [[[1.0]], [[1.0], [1.8]], [[1.0, 2.0], [2.0, 2.0], [1.5, 2.0]]])
def test_few_contexts_are_interpolated_without_a_choice(known):
    known = np.array(known)
    states = np.stack([1.0 / known[:, :1], np.ones((len(known), 1))], axis=2) * np.ones((1, 3, 1))
    trend = fit_trend(known, states)
    np.testing.assert_allclose(trend.predict(known), states, rtol=5e-3)
    middle = known.mean(axis=0, keepdims=True)
    assert np.abs(trend.predict(middle)[0, :, 0] * middle[0, 0] - 1).max() < 0.02


def test_far_extrapolation_stays_near_the_known_range():
    states = roofline(KNOWN, np.inf)
    trend = fit_trend(KNOWN, states)
    far = np.array([[1000.0, 50.0], [4.0, 1.2], [1.0, 0.5]])
    prediction = trend.predict(far)
    assert np.all(np.isfinite(prediction) & (prediction >= 0))
    assert prediction.max() < 5 * states.max()


def test_contexts_of_larger_weight_are_followed_more_closely():
    rng = np.random.default_rng(3)
    known = np.linspace(1, 2, 20)[:, None]
    noise = np.where(np.arange(20) % 2 == 0, 0.2, 0.001)[:, None, None]
    states = np.exp(noise * rng.standard_normal((20, 30, 1)))
    weighted = fit_trend(known, states, weights=1 / noise[:, 0, 0] ** 2).predict(known)
    alike = fit_trend(known, states).predict(known)
    assert np.abs(weighted - 1).mean() < 0.5 * np.abs(alike - 1).mean()


@pytest.mark.parametrize("cap", [True, False])
def test_a_trend_survives_as_plain_arrays(cap):
    trend = fit_trend(KNOWN, noisy(roofline(KNOWN, 300.0 if cap else np.inf)))
    assert len(trend.caps) == cap
    queries = grid([1.4, 5.6], [1.2, 3.0])
    back = restored(trend, trend)
    np.testing.assert_array_equal(back.predict(queries), trend.predict(queries))
    np.testing.assert_array_equal(back.left_out_alone, trend.left_out_alone)
    np.testing.assert_array_equal(
        back.predict(queries, slice(1, 2)), back.predict(queries)[..., 1:2]
    )
    np.testing.assert_array_equal(back.times(queries)[0], back.predict(queries)[..., 0])


def test_left_out_states_are_kept_once_they_are_computed():
    trend = fit_trend(KNOWN, roofline(KNOWN, np.inf))
    assert "left_out_alone" not in vars(restored(trend, trend))
    left_out = trend.left_out_alone
    again = restored(trend, trend, change=lambda a, _: a.update(left_out_alone=2 * left_out))
    np.testing.assert_array_equal(again.left_out_alone, 2 * left_out)
    # a refit has others
    states = trend.states
    np.testing.assert_allclose(again.refit(states).left_out_alone, left_out, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": [[1.0], [np.inf], [3.0]]}, "contexts has shape"),
        ({"contexts": [[1.0], [1.0], [3.0]]}, "twice"),
        ({"states": np.ones((2, 4, 1))}, "states has shape"),
        ({"states": -np.ones((3, 4, 1))}, "negative"),
        ({"states": np.full((3, 4, 1), np.nan)}, "a bin without a measured context"),
        ({"weights": 0.0}, "weights is 0.0; one positive"),
        ({"weights": [1.0, 2.0]}, "one positive number, or one per context"),
        ({"form": "spline"}, "form is 'spline'"),
        ({"coordinates": ("log", "log")}, "coordinates is"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"contexts": [[1.0], [2.0], [3.0]], "states": np.ones((3, 4, 1))} | change
    with pytest.raises(ArgumentError, match=message):
        fit_trend(**arguments)


def test_refitting_to_the_same_states_is_the_same_trend():
    contexts = np.array([[w, f] for w in (1.0, 2.0, 3.0, 5.0) for f in (1.0, 1.5, 2.0)])
    states = (1 / contexts[:, 1] + 0.3 / contexts[:, 0])[:, None, None] * np.ones((1, 4, 2))
    trend = fit_trend(contexts, states)
    again = trend.refit(states)
    np.testing.assert_array_equal(again.predict(contexts), trend.predict(contexts))
    doubled = trend.refit(2 * states).predict(contexts)
    np.testing.assert_allclose(doubled, 2 * trend.predict(contexts), rtol=1e-3)
    with pytest.raises(ArgumentError, match="states has 1 quantities; the 2 of the trend"):
        trend.refit(states[:, :, :1])


def test_under_a_time_model_sums_of_counters_follow_their_trend():
    state = noisy(roofline(KNOWN))
    trend = fit_trend(KNOWN, state, segments=8)
    under_law = trend.with_time_model(Windows.of_bins(state[..., 0]))
    (model,), (of_sums,) = under_law.time_model, under_law.sums
    assert np.all((model.summed >= 0) & (model.summed <= 1))
    unseen = grid([1.4, 2.8, 5.6, 11.0], [1.2, 1.8])
    predicted, plain = under_law.predict(unseen), trend.predict(unseen)
    np.testing.assert_allclose(
        predicted[..., 0], model.time(unseen, predicted[..., 1:], under_law.caps)[0]
    )
    present, sums = (a[..., 1:].sum(axis=1) for a in (plain, of_sums.predict(unseen)))
    np.testing.assert_allclose(
        predicted[..., 1:].sum(axis=1), present * (sums / present) ** model.summed
    )
    truth = roofline(unseen)
    assert np.abs(np.log(predicted / truth))[..., 0].mean() < 0.03
    again = restored(under_law, under_law)
    np.testing.assert_array_equal(again.predict(unseen), predicted)
    np.testing.assert_array_equal(under_law.times(unseen)[1] <= 1.0, True)
    # the choices are kept: twice the amounts take twice the time
    doubled = under_law.refit(2 * state).predict(unseen)
    np.testing.assert_allclose(doubled / under_law.refit(state).predict(unseen), 2.0, rtol=0.01)
    assert np.abs(np.log(under_law.left_out_alone / state))[..., 0].mean() < 0.06
