"""Many contexts: fits and calibrations of low rank beside the exact ones."""

from time import process_time

import numpy as np
import pytest

from conftest import synthetic_task
from faulty import machine, spoilt, task
from msbgen.core import contexts
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.engine.bounds.left_out import leave_out
from msbgen.engine.bounds.model import CalibratedModel, calibrate_model
from msbgen.engine.faults.search import find_faulty_contexts
from msbgen.engine.generate.detection import DetectionSettings, known_faults
from msbgen.engine.generate.fit import fit_profiles

WAYS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
MANY = np.array([(w, f) for w in WAYS for f in (1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2)])


@pytest.fixture(scope="module")
def many():
    return synthetic_task(MANY, n_runs=3)


@pytest.fixture(scope="module")
def exact(many, quick):
    return calibrate_model(fit_profiles(many, quick), many)


@pytest.fixture(scope="module")
def few_are_many(exact):
    """More than 30 contexts are many, 20 choose the form of a fit, from the exact one on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "MOST_EXACT", 30)
        patch.setattr("msbgen.engine.trend.fit._CHOOSING", 20)
        yield


@pytest.fixture(scope="module")
def low_rank(few_are_many, many, quick):
    """A model of many contexts, and the steps of its fit."""
    seen = []
    return fit_profiles(many, quick, progress=lambda *step: seen.append(step)), seen


def test_many_contexts_are_fitted_as_few(low_rank, many, exact, between, tmp_path):
    model, seen = low_rank
    assert seen == [(k, len(seen)) for k in range(1, len(seen) + 1)]
    assert "LowRank" in type(model.distribution.centre.trend._smoother).__name__
    found, wanted = (m.generate(between, kind="mean") for m in (model, exact))
    np.testing.assert_allclose(found["duration"], wanted["duration"], rtol=0.004)
    for name in ("cache_misses", "cache_requests"):
        totals = [one[name].sum("time") for one in (found, wanted)]
        np.testing.assert_allclose(*totals, rtol=0.01)
    calibrated = calibrate_model(model, many)
    bounds = [one.duration_bound(between, 0.1) for one in (calibrated, exact)]
    np.testing.assert_allclose(*bounds, rtol=0.02)
    calibrated.save(tmp_path / "m.nc")
    again = CalibratedModel.load(tmp_path / "m.nc")
    np.testing.assert_array_equal(again.duration_bound(between, 0.1), bounds[0])
    np.testing.assert_array_equal(
        again.generate(between, kind="mean")["duration"], found["duration"]
    )


def test_some_of_many_contexts_are_scored(low_rank, many, monkeypatch):
    model, _ = low_rank
    every = leave_out(model.distribution, Profiles.of(many).counts)
    monkeypatch.setattr("msbgen.engine.bounds.left_out._MOST_SCORED", 24)
    some = leave_out(model.distribution, Profiles.of(many).counts)
    assert some.n_contexts < every.n_contexts == len(MANY)
    # a prediction depends on what was left out, not on which contexts are scored
    key = {(c, out.tobytes()): i for i, (c, out) in enumerate(zip(every.context, every.lacks))}
    same = [key[c, out.tobytes()] for c, out in zip(some.context, some.lacks)]
    np.testing.assert_allclose(some.predicted, every.predicted[same], rtol=1e-9)
    np.testing.assert_allclose(some.deviation, every.deviation[same], rtol=1e-9)
    # the scored contexts stand for all: levels keep their share of the weight
    shares = [one.weight[~one.alone].sum() for one in (some, every)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_of_many_contexts_only_those_that_deviate_are_searched(few_are_many, many, monkeypatch):
    settings = DetectionSettings(block=48, suspects=4)
    monkeypatch.setattr("msbgen.engine.generate.detection._SETTINGS", settings)
    searched = []

    def counted(contexts, *rest):
        searched.append(len(contexts))
        return find_faulty_contexts(contexts, *rest)

    monkeypatch.setattr("msbgen.engine.generate.detection.find_faulty_contexts", counted)
    assert not known_faults(Profiles.of(many))
    assert sum(searched) <= 2 * settings.block
    parts: list[tuple[int, int]] = []
    spoiled = spoilt(many, slow=[(9, 1.5)], exchanged=[(2, 60)])
    found = known_faults(Profiles.of(spoiled), lambda *part: parts.append(part))
    assert {(f.kind, *sorted(f.contexts)) for f in found} == {("slow", 9), ("exchanged", 2, 60)}
    assert max(searched) <= settings.block
    assert parts == [(done, len(parts)) for done in range(1, len(parts) + 1)]


def test_a_check_of_thousands_of_contexts_searches_none_without_reason():
    contexts = machine((17, 17, 17))
    time, counts = task(contexts)
    runs = np.exp(0.005 * np.random.default_rng(4).standard_normal((len(time), 2, 1)))
    durations = time[:, None] * runs[..., 0]
    each = np.repeat(np.concatenate([np.full((len(time), 1), 1e9), counts], axis=1)[:, None], 2, 1)
    shares = np.clip(durations[..., None] / 0.1 - np.arange(80), 0.0, 1.0) * 0.1
    shares = np.where(shares > 0, shares, np.nan) / durations[..., None]
    names = ("instructions", "requests", "misses")
    dataset = make_profiles(
        each[:, :, None] * shares[..., None], durations, contexts, interval=0.1,
        resources={n: {"units": "1"} for n in ("ways", "bandwidth", "clock")},
        counters={n: {"units": "1"} for n in names}, attrs={"progress": "instructions"},
    )  # fmt: skip
    parts: list[tuple[int, int]] = []
    begin = process_time()
    assert not known_faults(Profiles.of(dataset), lambda *part: parts.append(part))
    assert len(parts) <= 3
    assert process_time() - begin < 15  # where each context is searched, some 40 s
