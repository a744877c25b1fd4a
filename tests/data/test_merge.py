"""A second batch of runs beside a first."""

import re

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.check import validate_profiles
from msbgen.data.merge import check_batch, join_batches, share_a_run, without_replaced

LABEL = {"units": "percent", "levels": [10.0, 50.0, 100.0], "mechanism": "cgroup v1 quota"}


def batch(runs, n_times=5, names=("a", "b"), label=LABEL, mark=1):
    """Runs by context, each told apart by its counts; as many as the dict says."""
    contexts = np.array(list(runs), dtype=float).reshape(len(runs), -1)
    most = max(runs.values())
    counts = np.full((len(runs), most, n_times, len(names)), np.nan)
    duration = np.full((len(runs), most), np.nan)
    for c, many in enumerate(runs.values()):
        for r in range(many):
            counts[c, r] = 100 * mark + 10 * c + r + 1
            duration[c, r] = 0.01 * n_times
    data = make_profiles(
        counts, duration, contexts, interval=0.01, resources={"cpu_share": label},
        counters={name: {} for name in names}, attrs={"task": "t", "progress": names[0]},
    )  # fmt: skip
    data["load"] = ("context", "run"), np.where(np.isnan(duration), np.nan, mark), {"units": "1"}
    return data


def first_counts(data, context):
    row = data["a"].values[np.flatnonzero(data["cpu_share"].values == context)[0]]
    return [float(r[0]) for r in row if np.isfinite(r[0])]


def test_runs_of_both_are_there_context_by_context():
    whole = join_batches(
        batch({10: 2, 100: 1}), batch({100: 3, 50: 1}, n_times=8, mark=2), "first.nc"
    )
    validate_profiles(whole)
    assert whole["cpu_share"].values.tolist() == [10, 50, 100]
    assert dict(whole.sizes) == {"context": 3, "run": 4, "time": 8}
    assert first_counts(whole, 10) == [101, 102]
    assert first_counts(whole, 50) == [211]
    assert first_counts(whole, 100) == [111, 201, 202, 203]
    assert int(whole["duration"].notnull().sum()) == 7
    assert whole["load"].values[2].tolist() == [1, 2, 2, 2]
    assert whole.attrs["progress"] == "a"


def test_a_missing_run_in_the_middle_leaves_no_hole():
    first = batch({10: 3})
    first["duration"][0, 1] = np.nan
    first["a"][0, 1] = first["b"][0, 1] = np.nan
    whole = join_batches(first, batch({10: 1}, mark=2), "first.nc")
    assert first_counts(whole, 10) == [101, 103, 201]
    assert np.isfinite(whole["duration"].values).sum() == 3


def test_what_was_measured_again_takes_the_place_of_what_was_there():
    first, second = batch({10: 2, 50: 2, 100: 2}), batch({10: 1, 100: 1}, mark=2)
    kept = without_replaced(first, second, ["cpu_share"], np.array([[10.0], [50.0]]))
    whole = join_batches(kept, second, "first.nc")
    assert first_counts(whole, 10) == [201]
    assert first_counts(whole, 50) == [111, 112]  # which was not measured after all
    assert first_counts(whole, 100) == [121, 122, 211]
    assert without_replaced(first, second, ["cpu_share"], np.empty((0, 1))).equals(first)
    none = without_replaced(second, second, ["cpu_share"], np.array([[10.0], [100.0]]))
    assert join_batches(none, second, "first.nc").equals(second)


def test_levels_are_those_of_both():
    other = {**LABEL, "levels": [10.0, 20.0]}
    whole = join_batches(batch({10: 1}, label=other), batch({50: 1}), "f")
    assert list(whole["cpu_share"].attrs["levels"]) == [10, 20, 50, 100]


def test_a_level_in_two_spellings_is_one():
    labels = [{**LABEL, "levels": [level, 2.0]} for level in (1.3000000000000003, 1.3)]
    parts = [batch({label["levels"][0]: 1}, label=label) for label in labels]
    whole = join_batches(*parts, "f")
    assert whole.sizes["context"] == 1
    assert list(whole["cpu_share"].attrs["levels"]) == [1.3, 2.0]


def test_a_variable_of_one_batch_is_missing_in_the_other():
    second = batch({50: 1}, mark=2)
    second["a_counted_share"] = ("context", "run"), np.array([[0.5]]), {"units": "1"}
    whole = join_batches(batch({10: 1}), second, "f")
    np.testing.assert_array_equal(whole["a_counted_share"].values, [[np.nan], [0.5]])


def test_starts_in_whole_seconds_are_joined():
    first, second = batch({10: 2}), batch({10: 1, 50: 2}, mark=2)
    second["started"] = ("context", "run"), np.array([[7, 0], [8, 9]]), {"units": "s"}
    whole = join_batches(first, second, "f")
    np.testing.assert_array_equal(whole["started"].values, [[np.nan, np.nan, 7], [8, 9, np.nan]])


def test_other_events_are_refused_by_name():
    with pytest.raises(ProfileError, match=r"first\.nc: 'c' is counted there only; the same"):
        join_batches(batch({10: 1}, names=("a", "c")), batch({10: 1}, names=("a",)), "first.nc")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mechanism": "cgroup v2 quota"}, "the mechanism of 'cpu_share' is 'cgroup v1 quota'"),
        ({"units": "1"}, "the units of 'cpu_share' is 'percent'"),
    ],
)
def test_mechanisms_and_units_never_share_an_axis(change, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        check_batch(batch({10: 1}), {"cpu_share": {**LABEL, **change}}, 0.01, "f.nc")


def test_other_resources_intervals_and_what_holds_no_runs_are_refused():
    first = batch({10: 1})
    check_batch(first, {"cpu_share": LABEL}, 0.01, "f.nc")
    with pytest.raises(ProfileError, match="has contexts of cpu_share; ways are wanted"):
        check_batch(first, {"ways": LABEL}, 0.01, "f.nc")
    with pytest.raises(ProfileError, match=r"every 0\.01 s, here it is 0\.02"):
        check_batch(first, {"cpu_share": LABEL}, 0.02, "f.nc")
    with pytest.raises(ProfileError, match="holds no runs"):
        check_batch(first.isel(run=0), {"cpu_share": LABEL}, 0.01, "f.nc")
    odd = first.assign(heat=("time", np.zeros(first.sizes["time"])))
    with pytest.raises(ProfileError, match=r"the variable 'heat' has the dimensions \(time\), not"):
        check_batch(odd, {"cpu_share": LABEL}, 0.01, "f.nc")


def test_runs_of_a_part_that_says_nothing_went_on_to_their_end():
    first = batch({10: 2})
    first["complete"] = ("context", "run"), np.array([[0, 1]], dtype=np.int8)
    whole = join_batches(first, batch({10: 1, 50: 1}, mark=2), "first.nc")
    assert whole["complete"].values.tolist() == [[0, 1, 1], [1, 1, 1]]
    validate_profiles(whole)


def test_a_run_is_shared_where_context_duration_and_counts_are_equal():
    first = batch({10: 3, 50: 1})  # all of equal durations
    assert share_a_run(first, first.isel(context=[1]))
    assert not share_a_run(first, batch({10: 3, 50: 1}, mark=2))
    elsewhere = first.isel(context=[0])
    elsewhere["cpu_share"].values[:] = 100.0
    assert not share_a_run(first, elsewhere)
    longer = batch({50: 2}, n_times=8)
    assert not share_a_run(first, longer)
    longer["duration"].values[0, 1] = first["duration"].values[1, 0]
    assert not share_a_run(first, longer)
    longer["a"].values[0, 1], longer["b"].values[0, 1] = (
        np.pad(first[name].values[1, 0], (0, 3), constant_values=np.nan) for name in ("a", "b")
    )
    assert share_a_run(first, longer)
