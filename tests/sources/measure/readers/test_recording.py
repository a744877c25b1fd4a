"""Rows put together: what is added, what is estimated, what is refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.perf import parse_perf, read_perf
from msbgen.sources.measure.readers.recording import NOT_COUNTED, Rows, assemble


def lines(*rows):
    """A recording from rows of time, value, unit, event, nanoseconds, percentage."""
    return "".join(f"     {t:.9f};{v};{u};{e};{ns};{p:.2f};;\n" for t, v, u, e, ns, p in rows)


def test_cpu_times_come_from_the_field_that_is_not_rounded():
    text = lines(
        (0.01, "5.12", "msec", "task-clock", 5117950, 100),
        (0.02, "40.30", "msec", "task-clock", 24268480374954, 100),  # as with control groups
    )
    found = parse_perf(text, "f")
    assert found.units == ("ns",)
    assert found.counts[:, 0].tolist() == [5117950, 40300000]


def test_a_task_that_did_not_run_counts_zero_and_one_without_a_counter_is_estimated():
    def bin_of(time, value, ns, percent, busy):
        return [
            (time, value, "", "misses", ns, percent),
            (time, f"{busy:.2f}", "msec", "task-clock", int(busy * 1e6), 100),
        ]

    text = lines(
        *bin_of(0.01, 100, 10_000_000, 100, 10),
        *bin_of(0.02, "<not counted>", 0, 100, 0),  # asleep
        *bin_of(0.03, "<not counted>", 0, 0, 5),  # awake, other events had the counters
        *bin_of(0.04, 300, 5_000_000, 50, 10),
    )
    found = parse_perf(text, "f")
    # 10 events a millisecond before, 30 behind, nothing in the bin between that slept: the bins
    # are 1, 3, 4, so that two thirds of the way are gone
    assert found.counts[:, 0] == pytest.approx([100, 0, 5 * (10 + 20 * 2 / 3), 300])
    assert found.enabled[:, 0] == pytest.approx([1e7, 0, 5e6, 1e7])
    assert found.counted_share[0] == pytest.approx((10 + 0 + 5) / (10 + 5 + 10))
    (message,) = found.warnings
    assert "misses had a counter for 60% of the time or more (in up to 1 of 4 bins not" in message


def test_an_event_that_never_had_a_counter_is_refused():
    text = lines(
        (0.01, "<not counted>", "", "misses", 0, 0), (0.01, "9.00", "msec", "task-clock", 9e6, 100)
    ).replace("9000000.0", "9000000")
    with pytest.raises(ProfileError, match="'misses' was never counted, because other events used"):
        parse_perf(text, "f")


def test_sharing_counters_may_lose_a_third_and_is_said():
    """Of eleven events at once one has 62 % of what the same program has when it has a counter."""
    alone = read_perf(FIXTURES / "perf-6.1.192/hardware.csv", ["instructions"])
    shared = read_perf(FIXTURES / "perf-6.1.192/multiplexed.csv")
    assert alone.counted_share[0] == 1
    assert shared.counted_share[0] < 0.9
    assert shared.totals[0] < 0.7 * alone.totals[0]
    assert "counts are estimates" in shared.warnings[0]


def test_the_kinds_of_cores_of_a_hybrid_cpu_are_one_event():
    task = read_perf(FIXTURES / "constructed/hybrid-task.csv")
    # a quarter of the third bin at 40 million, the rest at 20 million, as both are scaled
    assert task.counts[:, 1].tolist() == [0, 4e7, 2.5e7, 2e7]
    assert task.counted_share[1] == 1
    everything = read_perf(FIXTURES / "constructed/hybrid-all.csv")
    assert everything.counts[:, 0].tolist() == [6e7, 4e7]
    assert everything.events == ("cpu_core/instructions/+cpu_atom/instructions/",)


def test_a_task_that_stays_on_one_kind_of_core_is_counted_there():
    text = lines(
        (0.01, 700, "", "cpu_core/cycles/", 9_000_000, 100),
        (0.01, "<not counted>", "", "cpu_atom/cycles/", 0, 0),
        (0.02, 500, "", "cpu_core/cycles/", 9_000_000, 100),
        (0.02, "<not counted>", "", "cpu_atom/cycles/", 0, 0),
    )
    found = parse_perf(text, "f")
    assert found.counts.tolist() == [[700], [500]]
    assert found.counted_share == 1


def test_rows_of_a_probe_at_two_addresses_are_added():
    found = read_perf(FIXTURES / "constructed/two-addresses.csv")
    assert found.counts[:, 0].tolist() == [123, 7]


def test_places_are_added_and_those_without_counts_may_be_missing():
    text = (
        "     0.010000000;CPU0;7;;faults;10;100.00;;\n"
        "     0.010000000;CPU1;5;;faults;10;100.00;;\n"
        "     0.020000000;CPU1;2;;faults;10;100.00;;\n"
    )
    assert parse_perf(text, "f").counts[:, 0].tolist() == [12, 2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lines((0.01, 5, "", "a", 1, 100), (0.02, -5, "", "a", 1, 100)), "line 2: event 'a' is -5"),
        (lines((0.02, 5, "", "a", 1, 100), (0.01, 5, "", "a", 1, 100)), "does not increase"),
        (lines((0.01, 5, "", "a", 1, 100), (0.01, 5, "ns", "a", 1, 100)), "in units '', 'ns'"),
        (
            lines(*[(t, 5, "", e, 1, 100) for t in (0.01, 0.02, 0.03) for e in "ab"][:-1]),
            "event 'b' has 0 rows at 0.030000000 s and 1 elsewhere: the recording ends within",
        ),
        (
            lines(*[(t, 5, "", e, 1, 100) for t in (0.01, 0.02, 0.03, 0.04) for e in "ab"][1:]),
            "event 'a' has 0 rows at 0.010000000 s and 1 elsewhere: rows are missing",
        ),
    ],
)
def test_what_no_recording_holds_is_refused(text, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        parse_perf(text, "f")


def test_a_total_of_the_tool_itself_that_differs_is_said():
    text = lines((0.01, 5, "", "a", 1, 100), (0.02, 6, "", "a", 1, 100))
    assert parse_perf(text + "         summary;11;;a;2;100.00;;\n", "f").warnings == ()
    (message,) = parse_perf(text + "         summary;12;;a;2;100.00;;\n", "f").warnings
    assert "adds up to 11 in the bins and to 12 in the tool's summary" in message


def test_the_interval_asked_for_is_told_by_the_shortest_bin():
    read = {
        "sweep-quota/q100_r0.csv": 0.01,
        "perf-6.1.192/tab.csv": 0.02,
        "perf-6.1.187/summary.csv": 0.05,
    }
    for name, interval in read.items():
        assert read_perf(FIXTURES / name).interval == interval


def test_late_bins_are_known_by_their_start_and_end():
    rows = [(t, 5, "", "a", 1, 100) for t in (0.0101, 0.0202, 0.0602, 0.0703, 0.09)]
    found = parse_perf(lines(*rows), "f")
    np.testing.assert_allclose(found.late_bins(0.01), [[0.0202, 0.0602], [0.0703, 0.09]])
    assert found.late_bins(0.04).shape == (0, 2)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_sums_over_places_are_those_of_a_dictionary(n_bins, n_events, n_places, random):
    rows, wanted = [], {}
    for t in range(n_bins):
        for e in range(n_events):
            for p in range(n_places):
                value = random.randrange(1000)
                state = NOT_COUNTED if random.random() < 0.1 else 0
                rows.append((0.01 * (t + 1), f"CPU{p}", f"e{e}", 0 if state else value, state))
                wanted[t, e] = wanted.get((t, e), 0) + (0 if state else value)
    if all(row[4] for row in rows):
        return
    n = len(rows)
    times, places, events, values, states = zip(*rows)
    made = Rows(
        source="f", lines=np.arange(n), times=np.array(times), places=places, events=events,
        units=[""] * n, values=np.array(values, dtype=float), states=np.array(states, np.int8),
        running=np.where(np.array(states) > 0, 0.0, 1e7), share=np.ones(n), summary={},
    )  # fmt: skip
    found = assemble(made)
    assert {index: v for index, v in np.ndenumerate(found.counts)} == wanted


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lines((0.01, 5, "", "a\x1bb", 1, 100)), r"'a\x1bb' is no name of an event or a CPU"),
        (lines((0.01, 5, "", "a" * 600, 1, 100)), "is no name of an event or a CPU"),
        (lines((0.01, 5, "", "a", 10**19, 100)), "line 1 has an invalid time or share of time"),
        (lines((0.01, 5, "", "a", 1, 101)), "line 1 has an invalid time or share of time"),
        (lines((1e20, 5, "", "a", 1, 100)), "line 1 has an invalid time or share of time"),
    ],
)
def test_what_no_tool_writes_is_refused(text, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        parse_perf(text, "f")
