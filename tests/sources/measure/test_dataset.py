"""Recorded runs as a profile dataset."""

from dataclasses import replace

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.check import inspect_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import counter_names
from msbgen.sources.measure.dataset import Run, counter_names_of, profile_dataset
from msbgen.sources.measure.readers.perf import parse_perf, read_perf

QUOTA = {"cpu_quota": {"units": "%", "long_name": "share of a CPU"}}


def made(n_bins=12, per_bin=1000, events=("instructions", "page-faults"), step=0.0101):
    return parse_perf(
        "".join(
            f"     {step * (i + 1):.9f};{per_bin + j * i};;{event};10000000;100.00;;\n"
            for i in range(n_bins)
            for j, event in enumerate(events)
        ),
        f"made-{n_bins}-{per_bin}",
    )


def runs(**given):
    return [
        Run({"cpu_quota": quota}, made(n_bins=n), 0.0101 * n - 0.003, **given)
        for quota, n in ((100, 12), (50, 24), (100, 13))
    ]


def test_contexts_are_in_order_and_runs_as_they_come():
    dataset, warnings = profile_dataset(runs(), QUOTA)
    assert warnings == []
    assert inspect_profiles(dataset).errors == []
    assert dataset["cpu_quota"].values.tolist() == [50, 100]
    assert dataset.sizes["run"] == 2
    assert np.isnan(dataset["duration"].values[0, 1])
    np.testing.assert_allclose(dataset["duration"].values[1], [0.1182, 0.1283])
    totals = dataset["instructions"].sum("time").values
    np.testing.assert_allclose(totals[[0, 1, 1], [0, 0, 1]], [24000, 12000, 13000], rtol=1e-6)
    assert dataset.attrs["interval"] == 0.01
    assert dataset["page_faults"].attrs["event"] == "page-faults"


def test_a_level_in_two_spellings_is_one_context():
    levels = (1.3000000000000003, 2.0, 1.3, 1.3000001)
    dataset, _ = profile_dataset([replace(runs()[0], context={"cpu_quota": x}) for x in levels],
                                 QUOTA)  # fmt: skip
    assert dataset["cpu_quota"].values.tolist() == [1.3, 2.0]
    assert dataset["duration"].notnull().sum("run").values.tolist() == [3, 1]


def test_late_bins_are_kept_as_a_share():
    text = "".join(f"     {t:.9f};5;;a;1;100.00;;\n" for t in (0.01, 0.02, 0.08, 0.09, 0.1))
    dataset, _ = profile_dataset([Run({"cpu_quota": 1}, parse_perf(text, "f"), 0.1)], QUOTA)
    assert dataset["late_share"].item() == pytest.approx(0.6)
    assert dataset["longest_bin"].item() == pytest.approx(0.06)


def test_shared_counters_are_kept_as_a_share():
    found = read_perf(FIXTURES / "perf-6.1.192/multiplexed.csv")
    dataset, _ = profile_dataset([Run({"cpu_quota": 1}, found, 0.25)], QUOTA)
    assert dataset["instructions_counted_share"].item() == pytest.approx(found.counted_share[0])
    assert "task_clock_counted_share" not in dataset
    assert inspect_profiles(dataset).errors == []


def test_events_without_a_count_are_left_out_and_said():
    silent = parse_perf("     0.010000000;0;;a;1;100.00;;\n     0.010000000;3;;b;1;100.00;;\n", "f")
    dataset, warnings = profile_dataset([Run({"cpu_quota": 1}, silent, 0.01)], QUOTA)
    assert counter_names(dataset) == ["b"]
    assert "event 'a' is zero in every run; it was left out." in warnings
    with pytest.raises(ProfileError, match="no event was ever counted"):
        profile_dataset([Run({"cpu_quota": 1}, silent.select(["a"]), 0.01)], QUOTA)


@pytest.mark.parametrize(
    ("events", "clock", "chosen"),
    [
        (("page-faults", "instructions:u"), None, "instructions_u"),
        (("page-faults", "instructions:u"), "instructions", "instructions_u"),
        (("instructions", "task-clock:u"), "task_clock", "task_clock_u"),
        (("page-faults", "task-clock"), None, "task_clock"),
        (("page-faults", "cycles"), None, "time"),
        (("instructions", "probe_x:f"), "probe_x:f", "probe_x_f"),
        (("instructions", "probe_x:f"), "probe_x_f", "probe_x_f"),
        (("instructions", "probe_x:f"), "time", "time"),
    ],
)
def test_a_clock_is_chosen(events, clock, chosen):
    several = [Run({"cpu_quota": 1}, made(events=events), 0.12)]
    dataset, warnings = profile_dataset(several, QUOTA, clock=clock)
    assert Profiles.of(dataset).clock_name == chosen
    by_default = clock is None and chosen == "time"
    assert ("progress" not in dataset.attrs) == by_default
    assert any("no counter was chosen from cycles: " in text for text in warnings) == by_default


def test_a_clock_that_was_not_counted_is_refused():
    with pytest.raises(
        ProfileError, match="progress counter 'cycles' was not counted; instructions, page_f"
    ):
        profile_dataset(runs(), QUOTA, clock="cycles")


def test_groups_of_events_are_in_runs_of_their_own():
    other = made(per_bin=500, events=("instructions", "cache-misses"))
    several = [*runs(), Run({"cpu_quota": 100}, other, 0.118)]
    dataset, warnings = profile_dataset(several, QUOTA)
    assert (inspect_profiles(dataset).errors, warnings) == ([], [])
    assert counter_names(dataset) == ["instructions", "page_faults", "cache_misses"]
    held = {name: dataset[name].notnull().any("time").values for name in counter_names(dataset)}
    assert held["instructions"].tolist() == [[True, False, False], [True, True, True]]
    assert held["page_faults"].tolist() == [[True, False, False], [True, True, False]]
    assert held["cache_misses"].tolist() == [[False, False, False], [False, False, True]]
    assert float(dataset["cache_misses"].sum()) == pytest.approx(12 * 500 + sum(range(12)))


def test_a_run_that_was_cut_is_said_to_be():
    several = [*runs(), Run({"cpu_quota": 50}, made(), 0.118, complete=False)]
    dataset, _ = profile_dataset(several, QUOTA)
    assert inspect_profiles(dataset).errors == []
    assert dataset["complete"].values.tolist() == [[1, 0], [1, 1]]
    assert "complete" not in profile_dataset(runs(), QUOTA)[0]


def test_runs_without_the_clock_of_other_units_or_resources_are_refused():
    other = [*runs(), Run({"cpu_quota": 5}, made(events=("page-faults",)), 0.1)]
    with pytest.raises(
        ProfileError, match="made-12-1000: the progress counter 'instructions' is missing, which"
    ):
        profile_dataset(other, QUOTA)
    with pytest.raises(ArgumentError, match=r"context of made-12-1000 has ways; cpu_quota are"):
        profile_dataset([*runs(), Run({"ways": 5}, made(), 0.1)], QUOTA)
    with pytest.raises(ProfileError, match="no runs"):
        profile_dataset([], QUOTA)
    msec = parse_perf("     0.010000000;3;ns;a;1;100.00;;\n", "f")
    plain = parse_perf("     0.010000000;3;;a;1;100.00;;\n", "g")
    with pytest.raises(ProfileError, match="g: event 'a' is in units '', in f in 'ns'"):
        profile_dataset([Run({"cpu_quota": 1}, one, 0.01) for one in (msec, plain)], QUOTA)


def test_a_dataset_that_fits_but_once_is_refused(monkeypatch):
    """What is made of it on the way takes room, too: 12 bins of 2 events, 96 bytes."""
    one = [Run({"cpu_quota": 1}, made(), 0.12)]
    monkeypatch.setattr(
        "msbgen.sources.measure.dataset.physical_memory", lambda: 2 * 4 * (96 + 288)
    )
    profile_dataset(one, QUOTA)
    monkeypatch.setattr(
        "msbgen.sources.measure.dataset.physical_memory", lambda: 2 * 4 * (96 + 288) - 1
    )
    with pytest.raises(ProfileError, match="do not fit into memory; a longer interval"):
        profile_dataset(one, QUOTA)


def test_a_recording_that_ends_long_before_its_run_is_said():
    _, warnings = profile_dataset([Run({"cpu_quota": 1}, made(), 0.5)], QUOTA)
    assert "made-12-1000: ends 0.379 s before its run; measure it again." in warnings


def test_a_duration_long_before_the_last_counts_is_said():
    """Milliseconds taken for another unit, say; stamps themselves lie a little behind."""
    _, warnings = profile_dataset([Run({"cpu_quota": 1}, made(n_bins=30), 0.003)], QUOTA)
    assert any("goes on counting 0.29 s after its run's duration of 0.003 s" in w for w in warnings)
    late = profile_dataset([Run({"cpu_quota": 1}, made(n_bins=30), 0.303 - 0.1)], QUOTA)[1]
    assert late == []


def test_a_machine_too_busy_for_the_interval_is_said():
    late = made(step=0.025)
    _, warnings = profile_dataset([Run({"cpu_quota": 1}, late, 0.3)], QUOTA, interval=0.01)
    assert any("half of the bins are 0.025 s or longer" in text for text in warnings)


def test_names_of_counters_are_unlike_and_never_reserved():
    events = ["LLC-loads", "llc_loads", "time", "r00c0", "5", "probe_x:f", "a.b/c=1,d=2/u", "ways"]
    names = counter_names_of(events, ["ways"])
    assert names == [
        "llc_loads", "llc_loads_2", "event_time", "r00c0", "event_5", "probe_x_f", "a_b_c_1_d_2_u",
        "event_ways",
    ]  # fmt: skip
    make_profiles(
        np.ones((1, 1, len(names))), [1.0], [[1.0]], interval=1.0, resources=QUOTA,
        counters={name: {} for name in names},
    )  # fmt: skip


def test_recordings_of_other_intervals_are_resampled_with_a_warning():
    mixed = [
        Run({"cpu_quota": q}, made(step=s), 12 * s) for q, s in ((1, 0.02), (2, 0.05), (3, 0.1))
    ]
    _, warnings = profile_dataset(mixed, QUOTA)
    assert [text for text in warnings if "recordings have intervals" in text] == [
        "recordings have intervals from 0.02 to 0.1 s: the 2 finer ones were resampled to 0.1 s; "
        "--interval sets another one for all."
    ]
    assert not any("intervals from" in w for w in profile_dataset(mixed, QUOTA, interval=0.1)[1])


def test_a_counter_of_another_name_is_said_with_the_reason():
    recording = replace(made(events=("Ways", "b")), events=("Ways", "0x123"))  # of another tool
    _, warnings = profile_dataset([Run({"ways": 1}, recording, 0.12)], {"ways": {"units": "1"}})
    assert [text for text in warnings if "is counter" in text] == [
        "event 'Ways' is counter 'event_ways' in the file, as a resource or a column of msbgen has "
        "its name.",
        "event '0x123' is counter 'event_0x123' in the file, as names do not begin with a digit.",
    ]
