"""The record of a profile dataset: arrays and names."""

import numpy as np
import pytest

from msbgen.data.build import make_profiles
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.profiles import Profiles
from partials import cut, in_groups, whole, with_gaps


def profiles():
    """Three contexts with a counter of two intervals, the second run of the first one missing."""
    counts = np.arange(12.0).reshape(3, 2, 2, 1) + 1.0
    duration = np.array([[0.2, np.nan], [0.15, 0.2], [0.2, 0.2]])
    counts[0, 1] = np.nan
    return make_profiles(
        counts, duration, [[1.0], [2.0], [4.0]], interval=0.1,
        resources={"ways": {"units": "1"}}, counters={"requests": {}},
        attrs={"task": "copy", "platform": "board", "kept_not": "this"},
    )  # fmt: skip


def test_a_record_holds_arrays_and_names_in_the_files_order():
    found = Profiles.of(profiles())
    assert (found.source, found.task, found.interval, found.replicate) == (
        "copy",
        "copy",
        0.1,
        "run",
    )
    assert (list(found.resources), list(found.counters)) == (["ways"], ["requests"])
    assert found.contexts.tolist() == [[1.0], [2.0], [4.0]]
    assert [each.shape for each in found.samples] == [(3, 2, 2)]
    assert found.samples[0][2, 1].tolist() == [11.0, 12.0]
    assert found.counts[2, 1, :, 0].tolist() == [11.0, 12.0]
    assert found.held[..., 0].tolist() == [[True, False], [True, True], [True, True]]
    assert found.totals[1, :, 0].tolist() == [11.0, 15.0]
    assert np.isnan(found.totals[0, 1, 0])
    assert found.mean_duration.tolist() == pytest.approx([0.2, 0.175, 0.2])
    assert found.n_intervals.tolist() == [[2, 0], [2, 2], [2, 2]]
    assert found.inherited_attrs == {"task": "copy", "platform": "board"}
    assert found.describe_context(2) == "context 2 (ways=4)"


def test_the_order_of_dimensions_in_the_file_does_not_matter():
    one, two = Profiles.of(profiles()), Profiles.of(profiles().transpose("time", "run", "context"))
    for name in ("counts", "duration", "complete", "started"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_one_profile_per_context_is_one_run():
    found = Profiles.of(profiles().isel(run=0))
    assert found.replicate == ""
    assert found.samples[0].shape == (3, 1, 2)
    assert found.duration.tolist() == [[0.2], [0.15], [0.2]]
    assert found.complete.all()


def test_progress_is_measured_by_the_named_counter_or_instructions_or_time():
    named = profiles().assign_attrs(progress="requests")
    renamed = profiles().rename(requests="instructions")
    assert [Profiles.of(ds).clock for ds in (profiles(), named, renamed)] == [0, 1, 1]
    assert Profiles.of(renamed.assign_attrs(progress="time")).clock_name == "time"


def test_runs_that_were_cut_have_no_execution_time():
    found = Profiles.of(cut(whole(), [(2, 1)]))
    assert not found.complete[2, 1]
    assert found.complete.sum() == found.complete.size - 1
    assert np.isfinite(found.duration[2, 1])
    assert np.isnan(found.ended[2, 1])
    assert np.isnan(found.totals[2, 1]).all()


def test_counters_are_held_by_the_runs_of_their_group():
    found = Profiles.of(in_groups(whole()))
    assert found.held[:, 0].all(axis=0).tolist() == [True, True, False]
    assert found.held[:, 1].all(axis=0).tolist() == [True, False, True]


@pytest.mark.parametrize("kind", ["carried", "lost"])
def test_gaps_are_filled_in_the_counts_only(kind):
    measured = with_gaps(whole(), kind)
    found = Profiles.of(measured)
    missing = found.missing_samples()
    assert missing.any()
    raw = np.stack(found.samples, axis=-1)
    assert np.isnan(raw[missing]).all()
    assert np.isfinite(found.counts[missing]).all()
    np.testing.assert_array_equal(np.isfinite(raw) | missing, np.isfinite(found.counts))
    assert found.missing_samples(["lost"]).any() == (kind == "lost")
    if kind == "carried":  # the next count holds what was missed
        np.testing.assert_allclose(found.totals, Profiles.of(whole()).totals, rtol=1e-6)


def test_some_contexts_are_those_of_the_dataset_of_some_contexts():
    measured = cut(whole(), [(2, 1)]).assign(load=(("context", "run"), np.eye(9, 4)))
    one, two = Profiles.of(measured).of_contexts([2, 5]), Profiles.of(measured.isel(context=[2, 5]))
    for name in ("contexts", "counts", "duration", "complete", "started", "ended", "totals"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.run_details["load"], two.run_details["load"])


def test_durations_alone_have_one_event_a_run():
    plain = profiles().drop_dims("time")
    del plain.attrs["interval"]
    found, fine = Profiles.of(plain), Profiles.of(plain, 0.05)
    assert list(found.counters) == [WHOLE_RUN]
    assert not found.is_timed
    assert (found.interval, fine.interval) == (0.2, 0.05)
    assert (found.n_times, fine.n_times) == (1, 4)
    for one in (found, fine):
        np.testing.assert_allclose(one.totals[..., 0], [[1, np.nan], [1, 1], [1, 1]])
        assert one.mean_duration.tolist() == pytest.approx([0.2, 0.175, 0.2])


def test_profiles_without_their_counters_keep_the_durations():
    found = Profiles.of(profiles()).of_counters([])
    assert found.counts.shape == (3, 2, 0, 0)
    assert found.held.shape == (3, 2, 0) == found.totals.shape
    assert found.mean_duration.tolist() == pytest.approx([0.2, 0.175, 0.2])
