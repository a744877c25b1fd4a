"""What valid numbers say of their measuring."""

from dataclasses import replace

import numpy as np
import pytest

import partials
from conftest import MEASURED, synthetic_task
from faulty import spoilt
from msbgen.data.check import inspect_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.quality import (
    doubt_clock,
    doubt_counts,
    doubt_measurements,
    note_design,
    note_generated,
)
from msbgen.data.schema import counter_names
from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles
from msbgen.engine.generate.fit import DEFAULT, fit_profiles


@pytest.fixture
def many():
    """Six runs of each of six contexts."""
    return synthetic_task(MEASURED, n_runs=6)


def message(dataset):
    assert inspect_profiles(dataset).errors == []
    return doubt_measurements(Profiles.of(dataset), source="task.nc")


def of_runs(dataset, name, value, units="1"):
    label = {"units": units}
    values = np.full((dataset.sizes["context"], dataset.sizes["run"]), np.nan)
    values[2, 1] = value
    return dataset.assign({name: (("context", "run"), values, label)})


@pytest.mark.parametrize("name", ["bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd"])
def test_nothing_is_said_of_measurements_that_ship(name):
    for file in (f"{name}.nc", f"{name}-truth.nc"):
        assert (
            doubt_measurements(
                Profiles.of(read_profiles(shipped_file(file)).isel(context=slice(90)))
            )
            == []
        )
    assert note_design(Profiles.of(read_profiles(shipped_file(f"{name}.nc")))) == []


def test_nothing_is_said_of_good_measurements_nor_of_generated_ones(many):
    assert message(many) == []
    bad = of_runs(many, "steal", 0.9)
    assert doubt_measurements(Profiles.of(bad.assign_attrs(kind="sample"))) == []
    assert doubt_measurements(Profiles.of(many.isel(run=0))) == []
    assert note_design(Profiles.of(many.isel(context=[0]).assign_attrs(kind="mean"))) == []


def test_a_part_above_its_whole_is_named(many):
    many["cache_misses"].values[0, 2, 3] = 2 * many["cache_requests"].values[0, 2, 3]
    for profiles in (many, many.isel(run=2, drop=True)):
        (sentence,) = message(profiles)
        assert "counter 'cache_misses' is above 'cache_requests' in context 0 (" in sentence
        assert "interval 3" in sentence
        assert doubt_counts(Profiles.of(profiles.assign_attrs(kind="mean"))) == []


def test_unknown_units_of_resources_are_named(many):
    assert message(many.isel(run=0, drop=True)) == []
    many["cache_ways"].attrs["units"] = "parsec"
    for profiles in (many, many.isel(run=0, drop=True)):
        (sentence,) = message(profiles)
        assert "task.nc: resource 'cache_ways' is in 'parsec', an unknown unit" in sentence
        assert "'MB s-1', 'GiB' or 'GHz'" in sentence
    assert doubt_measurements(Profiles.of(many.assign_attrs(kind="sample"))) == []
    words = [f"{level:g}" for level in range(1, 9)]
    many["cache_ways"].attrs["labels"] = words  # levels that are words have no unit
    assert message(many) == []


def test_generated_profiles_are_named_with_their_kind(many):
    assert note_generated(Profiles.of(many)) == []
    assert note_generated(Profiles.of(many.isel(run=0))) == []  # measured, one run of each context
    (sentence,) = note_generated(Profiles.of(many.assign_attrs(kind="sample")), source="task.nc")
    assert sentence.startswith("task.nc: holds generated profiles (kind 'sample'), no measured")
    assert sentence.endswith("give the measured file.")


@pytest.mark.parametrize(
    ("name", "good", "bad", "sentence"),
    [
        ("steal", 0.005, 0.02, "'steal' is above 1% in context 2 (cache_ways=4, frequency=1 GHz),"),
        ("load", 0.4, 0.8, "'load' is above 0.5 in context 2"),
        ("instructions_counted_share", 0.96, 0.9, "counter 'instructions' was counted for less"),
        ("late_share", 0.04, 0.5, "5% of the time or more lies in bins of more than 1.5"),
        ("frequency_achieved", 0.97, 0.9, "resource 'frequency' was 0.1 GHz or less from the"),
    ],
)
def test_what_is_known_of_runs_is_looked_at(many, name, good, bad, sentence):
    many = of_runs(many, "longest_bin", 0.06, "s")
    assert message(of_runs(many, name, good)) == []
    (found,) = message(of_runs(many, name, bad))
    assert sentence in found
    assert found.startswith("task.nc: ")
    assert ", run 1: " in found


def test_variables_of_other_shapes_or_kinds_are_none(many):
    text = ("context", "run"), np.full((6, 6), "x")
    assert message(many.assign(steal=text)) == []
    assert message(many.assign(steal=("context", np.ones(6)))) == []


@pytest.mark.parametrize("bits", [32, 48, 64])
def test_counts_just_below_a_width_have_wrapped(many, bits):
    many["cache_misses"][1, 0, 3] = 2.0**bits - 1000
    many["cache_requests"][1, 0, 3] = 2.0**bits
    found = message(many)
    assert any(f"'cache_misses' is just below 2^{bits} in context 1" in text for text in found)
    assert any("interval 3 (0.04 s)" in text for text in found)


def test_large_counts_that_are_usual_have_not_wrapped(many):
    large = many.assign(instructions=many["instructions"] * 0 + np.float32(2.0**32 * 0.999))
    large["instructions"].attrs = many["instructions"].attrs
    assert not any("wrapped" in text for text in message(large))


@pytest.mark.parametrize(("kind", "remedy"), [("carried", "'lost' rather than"), ("lost", "drop")])
def test_totals_that_depart_for_gaps_are_not_blamed_on_the_task(kind, remedy):
    profiles = partials.whole()
    for name in ("instructions", "cache_requests", "cache_misses"):
        profiles[name].attrs["gaps"] = kind
        profiles[name][2, 1, 1:9] = np.nan
    profiles["instructions"][2, 1, [0, 9]] *= 3 if kind == "lost" else 1
    (doubt,) = doubt_measurements(Profiles.of(profiles))
    assert "in context 2 " in doubt
    assert "run 1 lacks 8 of " in doubt
    assert remedy in doubt


def test_durations_that_spread_and_runs_that_stand_apart(many):
    found = message(spoilt(many, stretched=[(3, 2, 2.0, 0.0, 1.0)]))
    assert [text.partition(": ")[2][:40] for text in found] == [
        "durations spread by more than 25% betwee",
        "'duration' is far from that of the other",
    ]
    assert all("in context 3 (cache_ways=4, frequency=2 GHz)" in text for text in found)
    assert "run 2" in found[1]
    assert message(spoilt(many, stretched=[(3, 2, 1.05, 0.0, 1.0)])) == []


def test_totals_of_the_progress_that_spread(many):
    changed = many.copy(deep=True)
    changed["instructions"][4, 1] *= 1.2
    (found,) = message(changed)
    assert "totals of 'instructions' spread by more than 5% between runs in context 4" in found
    assert message(changed.assign_attrs(progress="time")) == []
    misses = changed.assign_attrs(progress="cache_requests")
    assert message(misses) == []


@pytest.mark.parametrize("runs", [1, 3])
def test_a_context_whose_runs_do_less_work_was_cut_short(runs, coarse, caplog):
    cut = synthetic_task(MEASURED, n_runs=runs)
    counts = cut["instructions"].values
    counts[4] = np.where(np.arange(counts.shape[-1]) < 6, counts[4], np.nan)
    cut["duration"][4] = 0.06
    for name in counter_names(cut)[1:]:
        cut[name] = cut[name].where(np.isfinite(cut["instructions"]))
    (found,) = (text for text in message(cut) if "the total of 'instructions' is" in text)
    assert "times that of the other contexts in context 4 (cache_ways=8, frequency=1 GHz):" in found
    assert "set 'complete' to 0" in found
    with caplog.at_level("WARNING", logger="msbgen"):
        fit_profiles(cut)
        fit_profiles(cut.assign_attrs(keep_all=1))
    assert [found.removeprefix("task.nc: ") in text for text in caplog.messages].count(True) == 1


def test_a_wrong_count_of_the_clock_is_no_other_work(coarse, caplog):
    wrong = synthetic_task(MEASURED, n_runs=1)
    wrong["instructions"][4, :, 3] = 2.0**40
    with caplog.at_level("WARNING", logger="msbgen"):
        fit_profiles(wrong)
    assert "it was read wrongly" in caplog.text
    assert "the total of" not in caplog.text


def test_levels_of_another_work_are_another_program(many):
    many["instructions"].values *= (1.0 + (many["cache_ways"] == 8.0)).values[:, None, None]
    assert message(many) == []


def test_long_ends_without_a_count_are_doubted(many):
    assert message(many) == []
    for name in counter_names(many):
        found = many[name].values
        found[1, 2] = np.where(np.arange(found.shape[2]) < 3, found[1, 2], 0.0 * found[1, 2])
    assert "no counter counts in the last" in "".join(message(many))
    lost = many.copy(deep=True)
    for name in counter_names(lost):
        lost[name].values[1, 2, 3:] = np.nan
    assert not any("no counter counts" in text for text in doubt_measurements(Profiles.of(lost)))


def test_time_as_the_progress_of_own_counters_is_a_warning(caplog):
    own = synthetic_task(MEASURED, n_runs=1).drop_vars("instructions")
    sentence = "time measures progress, as no counter was chosen from cache_requests, cache_misses:"
    assert [sentence in text for text in doubt_clock(Profiles.of(own))] == [True]
    assert doubt_clock(Profiles.of(own.assign_attrs(progress="time"))) == []
    assert (
        doubt_clock(Profiles.of(own.rename(cache_requests="page_faults", cache_misses="cs"))) == []
    )
    assert any(sentence in text for text in doubt_measurements(Profiles.of(own)))
    with caplog.at_level("WARNING", logger="msbgen"):
        fit_profiles(own)
        fit_profiles(own, replace(DEFAULT, clock="time"))
    assert [sentence in text for text in caplog.messages].count(True) == 1


def test_one_recording_twice(many):
    for name in (*counter_names(many), "duration"):
        many[name][5, 3] = many[name][5, 0]
    (found,) = message(many)
    assert "those of another run in context 5 (cache_ways=8, frequency=2 GHz), run 3" in found


def test_a_resource_without_effect():
    """The clock does nothing where both of its levels were measured at one."""
    same = synthetic_task(np.array([(w, 1.0) for w in (2.0, 4.0, 8.0) for _ in range(2)]), n_runs=6)
    units = same["frequency"].attrs
    same = same.assign_coords(frequency=("context", np.tile([1.0, 2.0], 3), units))
    (found,) = message(same)
    assert "resource 'frequency' had no effect: at its levels neither durations nor" in found
    assert "cache_ways" not in found.partition("(")[0]


def test_one_run_a_context_tells_no_effect_and_no_spread():
    assert message(synthetic_task(MEASURED, n_runs=1)) == []


def test_a_context_that_was_not_set():
    """Two ways run as eight do, three are slower."""
    task = synthetic_task(np.array([(w, f) for f in (1.0, 2.0) for w in (2.0, 3.0, 8.0)]), n_runs=6)
    duration = task["duration"].values.mean(axis=1)
    wrong = spoilt(task, slow=[(0, float(duration[2] / duration[0]))])
    (found,) = message(wrong)
    assert (
        "context 0 (cache_ways=2, frequency=1 GHz) runs as with cache_ways=8, while what" in found
    )


def test_corners_that_are_missing_are_noted(many):
    listed = {**many["frequency"].attrs, "levels": [1.0, 2.0]}
    full = many.assign_coords(frequency=("context", many["frequency"].values, listed))
    assert note_design(Profiles.of(full)) == []
    (found,) = note_design(Profiles.of(full.isel(context=slice(1, 6))), source="task.nc")
    assert found == (
        "task.nc: 1 of the platform's 4 corners were not measured: (cache_ways=2, "
        "frequency=1 GHz); contexts towards them are extrapolated."
    )
    wider = {**listed, "levels": [0.5, 1.0, 2.0]}
    (found,) = note_design(
        Profiles.of(full.assign_coords(frequency=("context", MEASURED[:, 1], wider)))
    )
    assert "2 of the platform's 4 corners" in found
    assert "(cache_ways=8, frequency=0.5 GHz)" in found
