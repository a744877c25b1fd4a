"""Many contexts: fits and calibrations of low rank beside the exact ones."""

import numpy as np
import pytest

from conftest import synthetic_task
from faulty import spoilt
from msbgen.core import contexts
from msbgen.data.schema import count_array
from msbgen.engine.bounds.heldout import leave_out
from msbgen.engine.bounds.model import CalibratedModel, calibrate_model
from msbgen.engine.generate.faults import DetectionSettings, known_faults
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
    every = leave_out(model.distribution, count_array(many))
    monkeypatch.setattr("msbgen.engine.bounds.heldout._MOST_SCORED", 24)
    some = leave_out(model.distribution, count_array(many))
    assert some.n_contexts < every.n_contexts == len(MANY)
    # a prediction depends on what was left out, not on which contexts are scored
    key = {(c, out.tobytes()): i for i, (c, out) in enumerate(zip(every.context, every.left_out))}
    same = [key[c, out.tobytes()] for c, out in zip(some.context, some.left_out)]
    np.testing.assert_allclose(some.predicted, every.predicted[same], rtol=1e-9)
    np.testing.assert_allclose(some.deviation, every.deviation[same], rtol=1e-9)
    # the scored contexts stand for all: levels keep their share of the weight
    shares = [one.weight[~one.alone].sum() for one in (some, every)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_faults_of_many_contexts_are_found_in_blocks(few_are_many, many, monkeypatch):
    monkeypatch.setattr("msbgen.engine.generate.faults._SETTINGS", DetectionSettings(block=32))
    spoiled = spoilt(many, slow=[(9, 1.5)], exchanged=[(2, 60)])
    kinds = {(fault.kind, *sorted(fault.contexts)) for fault in known_faults(spoiled)}
    assert kinds == {("slow", 9), ("exchanged", 2, 60)}
    parts: list[tuple[int, int]] = []
    assert not known_faults(many, lambda *part: parts.append(part))
    blocks = -(-len(MANY) // 32)
    assert parts == [(done, blocks) for done in range(1, blocks + 1)]
