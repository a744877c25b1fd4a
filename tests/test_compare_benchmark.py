"""The study of comparisons, on a few replays and made-up results."""

import compare_edits
import compare_peers
import compare_scores
import numpy as np
import pytest

from msbgen.data.schema import duration_array


@pytest.mark.parametrize("edit", compare_edits.PLACES)
def test_edits_change_what_they_say(edit):
    trace = compare_edits.original("gzip")
    if edit == "one run in ten":
        case = compare_edits.Case("gzip", edit, 0.1, "9 x 2")
        plain, slow = (c.replays(1)[1] for c in (compare_edits.Case("gzip", design="9 x 2"), case))
        ratio = duration_array(slow) / duration_array(plain)
        assert np.all(np.isclose(ratio, 1) | np.isclose(ratio, 1.1))
        assert 0 < (ratio > 1.05).sum() < 6
        return
    new = compare_edits.edited(trace, edit, 0.1)
    work = [float(t["instructions"].sum()) for t in (trace, new)]
    gained = {"inserted": 1.1, "removed": 0.9}.get(edit, 1.0)
    assert work[1] / work[0] == pytest.approx(gained, abs=0.002)
    hits = [t["distance_histogram"].sum(("interval", "colouring", "stream")) for t in (trace, new)]
    if edit in ("misses", "working set"):
        assert float(hits[0].sum()) == float(hits[1].sum())
        assert not np.array_equal(*hits)
    cycles = [float(t["core_cycles"].sum()) for t in (trace, new)]
    assert (cycles[1] > cycles[0]) == (edit in ("cycles", "high clock", "inserted"))


def test_peers_alarm_where_times_differ_and_rarely_elsewhere():
    rng = np.random.default_rng(0)
    old, new = np.exp(0.01 * rng.standard_normal((2, 9, 6)))
    tests = [
        lambda a, b: compare_peers.alarms_by_context(a, b)["Welch"],
        lambda a, b: compare_peers.alarms_by_context(a, b)["Mann–Whitney"],
        lambda a, b: compare_peers.bootstrap_alarm(a, b, rng),
    ]
    assert [test(old, new) for test in tests] == [False] * 3
    assert [test(old, 1.1 * new) for test in tests] == [True] * 3
    assert set(compare_peers.alarms_by_context(old[:, :1], new[:, :1]).values()) == {None}
    series = 0.1 * rng.standard_normal(100)
    assert compare_peers.change_points(series, rng) == []
    series[40:60] += 1
    assert compare_peers.change_points(series, rng) == [0.4, 0.6]


def test_a_change_is_located_within_a_fortieth():
    assert compare_scores.located("removed", 0.02, [[0.31, 0.33, "removed"]]) == (True, True)
    assert compare_scores.located("removed", 0.02, [[0.2, 0.22, "removed"]]) == (True, False)
    assert compare_scores.located("cycles", 0.1, [[0.44, 0.5, "time"]]) == (True, False)
    assert compare_scores.located("cycles", 0.1, [[0.5, 0.6, "time"]]) == (False, False)


def test_goals_count_sweeps():
    peers = dict.fromkeys(compare_scores.PEERS, False)
    row = {"overall": True, "contexts": False, "stretched": 1.0, "points": [], "peers": peers}
    row |= {"ratio": [1.0, 0.99, 1.01], "changes": [[0.4, 0.5, "time"]]}
    cell = {"program": "cg", "edit": "cycles", "size": 0.05, "design": compare_edits.MAIN}
    clean = {**cell, "edit": "", "size": 0.0, "fault": "clean", "truth": None}
    sweeps = {"truth": 1.02, "fault": "clean", "sweeps": [row, {**row, "changes": []}]}
    cells = {"edits": [{**cell, **sweeps}], "alarms": [{**clean, "sweeps": [row]}]}
    results = {part: compare_scores.summarised(part, own) for part, own in cells.items()}
    power = {test: compare_scores.SWEEPS for test in ("msbgen", "Welch", "Mann–Whitney")}
    counts = {str(n): {**power, "Welch": 0, "Mann–Whitney": 0} for n in compare_scores.RUNS}
    counts["24"] = counts["32"] = power
    results["runs"] = {"cg": counts}
    figures = {name: value for name, value, *_ in compare_scores.goals(results)}
    assert figures["false alarms overall, clean"] == "100%"
    assert figures["false alarms overall, with a drift of 2 %"] == "—"
    assert figures["power, +5 % in a tenth, ends within 2.5 %"] == "50%"
    assert figures["coverage of the interval"] == "0%"
    assert compare_scores.fewer_runs(results) == {"cg": 12}


def test_sweeps_that_report_the_whole_parts_and_nothing_are_counted():
    whole, part = [0.02, 0.98, "time"], [0.0, 0.5, "time"]
    found = {"cg": {"1 x 20": [[whole], [part]]}, "bc": {"1 x 20": [[], [whole, part]]}}
    assert compare_scores.uniform_row("1 x 20", found) == ["1 x 20", "4", "1", "2", "1"]
