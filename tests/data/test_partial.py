"""Groups, cuts and gaps in words; what of them is an error, and what a doubt."""

import re

import numpy as np
import pytest
import xarray as xr

import partials
from broken import attr, put
from msbgen.data.check import inspect_profiles
from msbgen.data.partial import (
    counter_groups,
    cut_throughout,
    describe_partial,
    doubt_total,
    is_partial,
    partial_attrs,
)
from msbgen.data.profiles import Profiles
from msbgen.data.quality import doubt_measurements
from msbgen.data.schema import (
    COMPLETE,
    counter_names,
)
from msbgen.data.store import read_profiles, write_profiles


@pytest.fixture
def profiles():
    return partials.whole()


def test_whole_profiles_have_one_group_and_nothing_to_say(profiles):
    assert describe_partial(Profiles.of(profiles)) == []
    assert partial_attrs(Profiles.of(profiles)) == {}
    assert not is_partial(Profiles.of(profiles))
    assert Profiles.of(profiles).complete.all()
    ((names, runs),) = counter_groups(Profiles.of(profiles))
    assert names == tuple(counter_names(profiles))
    assert runs.all()


def test_groups_are_told_with_what_all_runs_share(profiles):
    grouped = partials.in_groups(profiles)
    assert inspect_profiles(grouped).errors == []
    assert is_partial(Profiles.of(grouped))
    message = describe_partial(Profiles.of(grouped))
    assert message[0] == "groups    2, with instructions in every run"
    assert sorted(line.partition("   ")[2] for line in message[1:]) == [
        "cache_misses: 2 runs a context",
        "cache_requests: 2 runs a context",
    ]
    assert partial_attrs(Profiles.of(grouped))["coupled"] == (
        "never measured in one run: cache_requests with cache_misses. How these depend is not "
        "measured: they depend here through instructions, time, context only."
    )
    assert Profiles.of(grouped).held[:, :, 1].tolist() == [[True, False] * 2] * 9
    assert "cache_misses" in Profiles.of(grouped).describe()


def test_a_group_may_be_missing_in_some_contexts(profiles):
    grouped = partials.in_groups(profiles)
    for run in (1, 3):
        grouped["duration"][4, run] = np.nan
        for name in counter_names(grouped):
            grouped[name][4, run] = np.nan
    assert inspect_profiles(grouped).errors == []
    missing = "in 1 context none, as in context 4 (cache_ways=4, frequency=1.5 GHz)"
    assert any(line.endswith(missing) for line in describe_partial(Profiles.of(grouped)))


def test_nobody_needs_to_know_whether_a_missing_run_was_cut(profiles):
    spoilt = partials.cut(profiles, [(0, 0)])
    spoilt[COMPLETE] = spoilt[COMPLETE].astype(float)
    for name in ("duration", COMPLETE, *counter_names(spoilt)):
        spoilt[name][4, 1] = np.nan
    assert inspect_profiles(spoilt).errors == []
    assert describe_partial(Profiles.of(spoilt))[0].startswith("cut       1 of 35 runs")


def test_only_counters_that_no_run_holds_together_are_coupled(profiles):
    profiles["cache_misses"][:, 1:] = np.nan  # the others go without it, but never with another
    assert len(describe_partial(Profiles.of(profiles))) == 3
    assert "coupled" not in partial_attrs(Profiles.of(profiles))
    for name, runs in (("a", [0]), ("b", [1]), ("cache_misses", [1, 2])):
        held = xr.DataArray(np.isin(np.arange(4), runs), dims="run")
        profiles[name] = profiles["cache_requests"].where(held)
    message = partial_attrs(Profiles.of(profiles))["coupled"].partition(". ")[0]
    assert message == "never measured in one run: cache_misses with a; a with b"


def test_cut_runs_are_told_and_take_no_part_in_durations(profiles):
    before = Profiles.of(profiles).mean_duration
    spoilt = partials.cut(profiles, [(0, 0), (0, 1), *((3, r) for r in range(4))])
    assert inspect_profiles(spoilt).errors == []
    first, second = describe_partial(Profiles.of(spoilt))
    assert "6 of 36 runs were ended early, in 2 contexts" in first
    reported = "every run in context 3 (cache_ways=4, frequency=1 GHz): what comes after is taken"
    assert reported in second
    assert reported in partial_attrs(Profiles.of(spoilt))["cut"]
    after = Profiles.of(spoilt).mean_duration
    assert np.isnan(after[3])
    assert after[0] == pytest.approx(before[0], rel=0.05)
    assert doubt_measurements(Profiles.of(spoilt)) == []


def test_a_counter_whose_every_run_in_a_context_was_cut_is_named_with_it(profiles):
    spoilt = partials.cut(partials.in_groups(profiles), [(5, 1), (5, 3), (7, 0)])
    (reported,) = cut_throughout(Profiles.of(spoilt))
    assert reported.startswith("every run that holds cache_misses in context 5 (")
    assert f"cut       {reported}" in describe_partial(Profiles.of(spoilt))
    assert partial_attrs(Profiles.of(spoilt))["cut"] == f"3 of 36 runs were cut; {reported}"


@pytest.mark.parametrize("kind", ["carried", "lost"])
def test_gaps_are_told_filled_and_kept_in_a_file(profiles, tmp_path, kind):
    counts = Profiles.of(profiles).counts
    spoilt = partials.with_gaps(profiles, kind)
    assert inspect_profiles(spoilt).errors == []
    words = {"carried": "holds what was missed", "lost": "lost, which lowers its totals by"}[kind]
    assert [words in line for line in describe_partial(Profiles.of(spoilt))] == [True] * 3
    made = {"carried": "held by the next", "lost": "filled in by the model"}[kind]
    assert (
        partial_attrs(Profiles.of(spoilt))["gaps"].count(f"of the samples were missing, {made}")
        == 3
    )
    if kind == "lost":
        assert partial_attrs(Profiles.of(spoilt), interpolated=True)["gaps"].endswith(
            "missing, interpolated"
        )
        assert "a model fills them in" in describe_partial(Profiles.of(spoilt))[0]
    write_profiles(spoilt, tmp_path / "gaps.nc")
    filled = Profiles.of(read_profiles(tmp_path / "gaps.nc")).counts
    np.testing.assert_array_equal(np.isnan(filled), np.isnan(counts))
    tolerance = 1e-5 if kind == "carried" else 0.05
    np.testing.assert_allclose(np.nansum(filled, axis=2), np.nansum(counts, axis=2), rtol=tolerance)


def test_a_total_that_departs_is_told_with_the_gaps_of_its_run(profiles):
    assert doubt_total(Profiles.of(profiles), 2, 1).startswith(
        "lost counts: its total departs from the others'"
    )
    timed = profiles.rename(instructions="task_clock").assign_attrs(progress="task_clock")
    assert doubt_total(Profiles.of(timed), 2, 1, "").endswith(
        "disturbed: its CPU time departs from the others'."
    )
    spoilt = partials.with_gaps(profiles, "carried")
    message = doubt_total(Profiles.of(spoilt), 2, 1)
    assert re.match(r"lacks 1 of 16 samples of 'instructions', and its total departs", message)
    assert message.endswith("it is left out: are they 'lost' rather than 'carried'?")


def test_a_last_sample_that_no_count_can_hold_is_doubted(profiles):
    spoilt = partials.with_gaps(profiles, "carried")
    last = int(np.flatnonzero(np.isfinite(spoilt["cache_misses"].values[3, 1]))[-1])
    assert inspect_profiles(spoilt).warnings == []
    spoilt["cache_misses"][3, 1, last] = np.nan
    (doubt,) = inspect_profiles(spoilt).warnings
    assert "'cache_misses' is NaN in the last interval in context 3 " in doubt
    assert "it is taken to go on as before: cut the run there" in doubt
    spoilt["cache_misses"].attrs["gaps"] = "lost"
    assert inspect_profiles(spoilt).warnings == []


def test_a_counter_that_a_run_does_not_hold_has_no_gap_there(profiles):
    grouped = partials.in_groups(profiles)
    grouped["cache_misses"].attrs["gaps"] = "carried"
    grouped["cache_misses"][2, 1, 3] = np.nan
    assert inspect_profiles(grouped).warnings == []
    many = int(grouped["cache_requests"].notnull().sum(["context", "time"])[0])
    held = int(grouped["cache_misses"].notnull().sum()) + 1
    assert held < 0.6 * 4 * many
    assert partial_attrs(Profiles.of(grouped))["gaps"].startswith(
        f"cache_misses: {100 / held:.2g} % of"
    )


EVERY = list(np.ndindex(9, 4))


def with_complete(value, dims=("context", "run")):
    return lambda ds: ds.assign({COMPLETE: (dims, np.full((9, 4)[: len(dims)], value))})


# None of these can be learned from.
ERRORS = {
    "counter 'cache_misses' is NaN in every run: none holds it": put("cache_misses", ..., np.nan),
    "'instructions', the progress counter, was not measured in context 2": put(
        "instructions", (2, 1), np.nan
    ),
    "say in its attribute 'gaps' whether": put("cache_misses", (1, 1, 3), np.nan),
    "has gaps 'some'; 'carried'": attr("cache_misses", "gaps", "some"),
    "no run went on to its end": lambda ds: partials.cut(ds, EVERY),
    "counter 'cache_misses' is in no run that went on to its end": lambda ds: partials.cut(
        partials.in_groups(ds), EVERY[1::2]
    ),
    "variable 'complete' is 0.5 in context 0, run 0 and in 35 more runs; 1,": with_complete(0.5),
    "variable 'complete' is nan in context 0, run 0 and in 35 more": with_complete(np.nan),
    "variable 'complete' holds text (<U3); 1 or 0 for each run": with_complete("yes"),
    "variable 'complete' has dimensions ['context']": with_complete(1.0, ("context",)),
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_what_nothing_can_be_learned_from_is_an_error_in_one_sentence(profiles, sentence):
    (error,) = inspect_profiles(ERRORS[sentence](profiles), source="task.nc").errors
    assert sentence in error
    assert error.startswith("task.nc: ")
    assert error.endswith(".")


def test_a_timeout_that_nobody_told_of_is_doubted(profiles):
    spoilt = partials.cut(profiles, [(0, r) for r in range(4)], share=0.9)
    limit = float(spoilt["duration"][0].min())
    rows = round(limit / profiles.attrs["interval"])
    for context, run in np.argwhere(spoilt["duration"].values > limit):
        spoilt["duration"][context, run] = limit
        for name in counter_names(spoilt):
            spoilt[name][context, run, rows:] = np.nan
    (doubt,) = inspect_profiles(spoilt.drop_vars(COMPLETE)).warnings
    assert "a timeout? Say so in 'complete'" in doubt
    assert doubt.startswith("dataset: a run in context 0 (")
    assert inspect_profiles(spoilt).warnings == []


def test_one_run_is_the_longest_anyhow(profiles):
    longest = divmod(int(profiles["duration"].values.argmax()), 4)
    profiles["instructions"][longest] *= 0.9
    assert inspect_profiles(profiles).warnings == []
