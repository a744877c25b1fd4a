"""What is found wrong with whole runs, and fits that are not spoilt by it."""

import logging

import numpy as np
import pytest

import msbgen
import partials
from conftest import synthetic_task
from msbgen.data.schema import context_table, count_array, duration_array, sampling_interval
from msbgen.generate.clock import resample
from msbgen.generate.faults import find_faults, name_faults
from msbgen.generate.model import doubt_contexts

WAYS, CLOCKS = (2.0, 3.0, 4.0, 6.0, 8.0), (1.0, 1.25, 1.5, 2.0)


@pytest.fixture(scope="module")
def clean():
    return synthetic_task(np.array([(w, f) for w in WAYS for f in CLOCKS]), n_runs=2)


def arrays(dataset):
    return count_array(dataset), duration_array(dataset), context_table(dataset)


def slowed(dataset, context, factor):
    """A dataset in which one context took longer, its counts spread over the longer time."""
    counts, duration, contexts = arrays(dataset)
    interval = sampling_interval(dataset)
    slow = resample(counts[context], duration[context], interval, interval / factor)
    longest = max(counts.shape[2], slow.shape[1])
    out = np.full((*counts.shape[:2], longest, counts.shape[3]), np.nan)
    out[:, :, : counts.shape[2]] = counts
    out[context] = np.nan
    out[context, :, : slow.shape[1]] = slow
    duration = duration.copy()
    duration[context] *= factor
    return msbgen.make_profiles(
        out, duration, contexts, interval=interval,
        resources={n: dataset[n].attrs for n in ("cache_ways", "frequency")},
        counters={n: dataset[n].attrs for n in dataset.data_vars if n != "duration"},
    )  # fmt: skip


def test_nothing_is_wrong_with_clean_runs(clean):
    assert not find_faults(*arrays(clean), sampling_interval(clean), 1)


def test_a_slow_context_is_named_mended_and_does_not_spoil_the_fit(clean, caplog):
    spoilt = slowed(clean, 9, 2.2)
    with caplog.at_level(logging.WARNING, "msbgen"):
        model = msbgen.fit_profiles(spoilt)
    assert "context 9" in caplog.text
    assert "measure it again" in caplog.text
    assert [(fault.kind, fault.contexts) for fault in model.findings] == [("slow", (9,))]
    asked = [[5.0, 1.4], [3.5, 1.3]]
    wanted = msbgen.fit_profiles(clean).law.durations(np.array(asked))
    assert model.law.durations(np.array(asked)) == pytest.approx(wanted, rel=0.02)
    made = model.generate(asked, kind="mean")
    assert made.attrs["faults"] == name_faults(spoilt, model.findings)


def test_a_model_remembers_its_findings(clean, tmp_path):
    model = msbgen.calibrate_model(
        msbgen.fit_profiles(slowed(clean, 9, 2.2)), slowed(clean, 9, 2.2)
    )
    assert model.calibration.held.weight[model.calibration.held.context == 9].sum() == 0
    model.save(tmp_path / "model.nc")
    again = msbgen.CalibratedModel.load(tmp_path / "model.nc")
    assert again.findings == model.findings
    assert np.array_equal(again.law.centre.pace, model.law.centre.pace)
    asked = np.array([[5.0, 1.4]])
    assert again.duration_bound(asked, 0.2) == pytest.approx(model.duration_bound(asked, 0.2))


def test_an_absurd_count_is_mended(clean):
    counts, duration, contexts = arrays(clean)
    counts[3, 1, 2, 1] = 2.0**48
    (found,) = find_faults(counts, duration, contexts, sampling_interval(clean), 1)
    assert (found.kind, found.contexts, found.where) == ("count", (3,), (1.0, 2.0, 1.0))


def test_a_model_file_of_damaged_findings_is_refused(clean, tmp_path):
    model = msbgen.fit_profiles(slowed(clean, 9, 2.2))
    dataset = model._as_dataset()
    dataset.attrs["labels"] = dataset.attrs["labels"].replace('"kind": "slow", ', "")
    with pytest.raises(msbgen.ProfileError, match="findings"):
        type(model)._from_dataset(dataset, "model.nc")


def test_too_few_contexts_tell_nothing(clean):
    few = clean.isel(context=slice(0, 4))
    assert not find_faults(*arrays(few), sampling_interval(few), 1)


@pytest.mark.parametrize(
    "spoil", [partials.in_groups, lambda ds: partials.cut(ds, [(c, 1) for c in range(20)])]
)
def test_a_slow_context_is_named_among_partial_measurements(clean, spoil):
    assert doubt_contexts(spoil(clean.copy(deep=True))) == []
    (sentence,) = doubt_contexts(spoil(slowed(clean, 9, 2.0)))
    assert f"context 9 (cache_ways={clean['cache_ways'].values[9]:g}" in sentence
