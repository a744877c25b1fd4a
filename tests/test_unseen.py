"""No choice is made by looking at test contexts: what is generated depends on the train set alone.

Two truths of the same contexts, which share not a single count or duration, must leave everything
that is fitted and generated the same to the last bit.
"""

import numpy as np
import pytest
import xarray as xr

import msbgen.answers.evaluate.scores
from msbgen.answers.evaluate.scores import METHODS, leave_contexts_out, methods, score_methods
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, counter_names, duration_array
from msbgen.engine.generate.fit import PRESETS, fit_model

pytestmark = pytest.mark.usefixtures("coarse")  # nothing here is of accuracy


def another(dataset, contexts=slice(None)):
    """The same contexts and runs with other counts and durations, and one run missing."""
    changed = dataset.copy(deep=True)
    rng = np.random.default_rng(11)
    for name in counter_names(changed):
        values = changed[name].values
        values[contexts] *= rng.uniform(2.0, 9.0, values.shape)[contexts]
        values[contexts, -1] = np.nan
    changed["duration"].values[contexts, -1] = np.nan
    return changed


class Watched:
    """Methods that pass on what they are asked, and keep it with what they answered."""

    def __init__(self, names=METHODS):
        every = methods()
        self.asked, self.answers = [], []
        self.methods = {name: self._watch(every[name]) for name in names}

    def _watch(self, method):
        def ask(*arguments, **named):
            self.asked.append((arguments, named))
            self.answers.append(method(*arguments, **named))
            return self.answers[-1]

        return ask


@pytest.fixture
def fitted(monkeypatch):
    """Everything that fitting is called with."""
    calls = []

    def fit(*arguments, **named):
        calls.append((arguments, named))
        return fit_model(*arguments, **named)

    monkeypatch.setattr(msbgen.evaluate.scores, "fit_model", fit)
    return calls


def test_what_is_generated_is_the_same_whatever_the_truth(measured, truth, fitted):
    other = another(truth)
    times = Profiles.of(other).counts / Profiles.of(truth).counts
    assert np.nanmax(times) > 5  # another truth indeed
    first, second = Watched(), Watched()
    scores = score_methods(measured, truth, first.methods)
    others = score_methods(measured, other, second.methods)
    assert len(first.answers) == len(second.answers) == len(METHODS)
    for one, two in zip(first.answers, second.answers):
        assert one.identical(two)
    # while the scores do look at the truth
    ndtw = [s["score"].sel(metric="ndtw").values for s in (scores, others)]
    assert np.all(ndtw[0] != ndtw[1])
    # fitting saw the train set and the settings, nothing else
    assert len(fitted) == 2 * len(PRESETS)
    for (profiles, settings), named in fitted:
        np.testing.assert_array_equal(profiles.counts, Profiles.of(measured).counts)
        assert any(settings is preset for preset in PRESETS.values())
        assert named == {"quiet": False}


def test_methods_are_given_the_train_set_and_a_bare_table_of_contexts(measured, truth):
    watched = Watched(["bracketing", "nearest_context"])
    before = measured.copy(deep=True)
    score_methods(measured, truth, watched.methods)
    for (train, contexts), named in watched.asked:
        assert train is measured
        assert type(contexts) is np.ndarray  # no labels, and nothing hangs on it
        np.testing.assert_array_equal(contexts, context_table(truth))
        assert not any(np.shares_memory(contexts, v.values) for v in truth.data_vars.values())
        assert not named
    assert measured.identical(before)


def test_what_is_left_out_has_no_say_in_its_own_profile(measured):
    first, second = (
        Watched(["default/mean", "kernel_mean"]),
        Watched(["default/mean", "kernel_mean"]),
    )
    changed = another(measured, contexts=[0, 3])
    # both changed contexts fall into one group
    for watched, dataset in ((first, measured), (second, changed)):
        leave_contexts_out(dataset, 3, watched.methods, rng=np.random.default_rng(5))
    seen = set()
    for ((train, contexts), _), one, two in zip(first.asked, first.answers, second.answers):
        rows = {i for i, c in enumerate(context_table(measured)) if c.tolist() in contexts.tolist()}
        assert not rows & {
            i for i, c in enumerate(context_table(measured))
            if c.tolist() in context_table(train).tolist()
        }  # fmt: skip
        if {0, 3} <= rows:  # only what was left out differs between the two files
            assert one.identical(two)
            seen |= rows
    assert {0, 3} <= seen


def test_a_truth_without_a_single_number_is_enough_to_generate(measured, truth):
    blank = xr.full_like(truth, np.nan)
    table = context_table(blank)
    for method in (methods()["default/mean"], methods()["multilinear"]):
        assert method(measured, table).identical(method(measured, context_table(truth)))
    assert np.isnan(duration_array(blank)).all()
