"""What perf recorded, in every form that it writes."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measure_fixtures import FIXTURES, RECORDINGS
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.perf import parse_perf, read_perf
from msbgen.sources.measure.readers.resample import resample

# Events, bins and what is to be said of each recording that can be read.
GOOD = {
    "perf-6.1.187/at.csv": (4, 146, ""),
    "perf-6.1.187/A.csv": (3, 3, "2 places (CPU0, CPU1) were added"),
    "perf-6.1.187/A.jsonl": (3, 3, "2 places (CPU0, CPU1) were added"),
    "perf-6.1.187/comma-event.csv": (2, 51, ""),
    "perf-6.1.187/de.csv": (2, 20, ""),
    "perf-6.1.187/de-semi.csv": (2, 21, ""),
    "perf-6.1.187/de.jsonl": (2, 25, ""),
    "perf-6.1.187/group.csv": (2, 1, ""),
    "perf-6.1.187/percore.csv": (3, 4, "2 places (S0-D0-C0, S0-D0-C1) were added"),
    "perf-6.1.187/percore.jsonl": (3, 3, "2 places"),
    "perf-6.1.187/pernode.csv": (3, 3, ""),
    "perf-6.1.187/persocket.csv": (3, 3, ""),
    "perf-6.1.187/perthread.csv": (3, 42, ""),
    "perf-6.1.187/rc9.csv": (3, 1, ""),
    "perf-6.1.187/summary.csv": (3, 50, ""),
    "perf-6.1.187/summary.jsonl": (3, 45, ""),
    "perf-6.1.187/uprobe.csv": (3, 54, ""),
    "perf-6.1.192/A.csv": (2, 5, "were added"),
    "perf-6.1.192/A.jsonl": (2, 5, "were added"),
    "perf-6.1.192/all.csv": (2, 5, ""),
    "perf-6.1.192/cgroup.csv": (2, 5, ""),
    "perf-6.1.192/colons.csv": (4, 22, ""),
    "perf-6.1.192/delayed.csv": (4, 18, ""),
    "perf-6.1.192/event-with-commas.csv": (2, 20, ""),
    "perf-6.1.192/group-braces.csv": (3, 20, ""),
    "perf-6.1.192/hardware.csv": (4, 49, ""),
    "perf-6.1.192/hardware.jsonl": (4, 39, ""),
    "perf-6.1.192/interval-count.csv": (4, 3, ""),
    "perf-6.1.192/letter.csv": (4, 21, ""),
    "perf-6.1.192/multiplexed.csv": (12, 39, "in up to 15 of 39 bins not at all"),
    "perf-6.1.192/multiplexed.jsonl": (12, 38, "measure fewer events at once"),
    "perf-6.1.192/percore.csv": (2, 5, "were added"),
    "perf-6.1.192/perdie.csv": (2, 5, ""),
    "perf-6.1.192/perthread-all.csv": (2, 6, "14 places"),
    "perf-6.1.192/perthread-all.jsonl": (2, 5, "14 places"),
    "perf-6.1.192/space.csv": (4, 19, ""),
    "perf-6.1.192/summary-without-word.csv": (4, 26, ""),
    "perf-6.1.192/tab.csv": (4, 20, ""),
    "perf-6.1.192/topdown.csv": (5, 21, ""),
    "perf-6.1.192/user-only.csv": (3, 45, ""),
    "constructed/two-addresses.csv": (2, 2, "the 2 rows of event 'probe_x:f' in a bin were added"),
    "constructed/hybrid-all.csv": (1, 2, "one event of a hybrid CPU"),
    "constructed/hybrid-task.csv": (2, 4, "one event of a hybrid CPU"),
    "sweep-quota/q020_r0.csv": (4, 298, ""),
    "sweep-quota/q100_r0.csv": (4, 65, ""),
}
BAD = {
    "perf-6.1.187/A2.csv": "only perf's header: perf refused",
    "perf-6.1.187/interval-comma.csv": "line 8: event 'instructions', 'cycles' is not supported",
    "perf-6.1.187/interval-semicolon.csv": "'instructions', 'cycles' is not supported",
    "perf-6.1.187/interval.jsonl": "'instructions', 'cycles' is not supported",
    "perf-6.1.187/mo.csv": "record without --metric-only",
    "perf-6.1.187/r.csv": "without a time; record with",
    "perf-6.1.187/text.txt": "record with 'LC_ALL=C perf stat -I 10 -x\\;'",
    "perf-6.1.187/tools.csv": "event 'user_time' is never counted in intervals",
    "perf-6.1.192/asked-twice.csv": "'instructions:u' has 2 rows with equal counts in every bin",
    "perf-6.1.192/metric-only.csv": "record without --metric-only",
    "perf-6.1.192/metric-only.jsonl": "record without --metric-only",
    "perf-6.1.192/no-such.csv": "nothing was counted; check",
    "perf-6.1.192/not-supported.csv": "event 'LLC-loads' is not supported",
    "constructed/ambiguous.csv": "is no line of perf;",
    "constructed/wrapped.csv": "line 4: event 'r0151' is 1.84467e+19: a counter that wrapped",
    "refused/likwid-no-hardware.txt": "without a time",
    "refused/pcm-no-hardware.txt": "without a time",
    "refused/pqos-no-hardware.txt": "without a time",
}


def test_every_recording_is_tried():
    there = {p.relative_to(FIXTURES).as_posix() for p in FIXTURES.glob("*/*") if p.is_file()}
    tables = {name for name in there if name.startswith("tables/")}
    assert there - tables == GOOD.keys() | BAD.keys()


@pytest.mark.parametrize("name", GOOD)
def test_every_form_is_read(name):
    n_events, n_bins, sentence = GOOD[name]
    found = read_perf(FIXTURES / name)
    assert found.counts.shape == (n_bins, n_events) == (len(found.times), len(found.events))
    assert np.all(np.diff(found.times, prepend=0) > 0)
    assert np.isfinite(found.counts).all()
    assert (found.counts >= 0).all()
    assert (sentence in " ".join(found.warnings)) if sentence else found.warnings == ()


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_recording_of_intervals_is_refused_with_its_remedy(name):
    with pytest.raises(ProfileError) as caught:
        read_perf(FIXTURES / name)
    assert BAD[name] in str(caught.value)
    assert str(caught.value).startswith(f"{name.rpartition('/')[2]}: ")
    assert str(caught.value).endswith((".", "'."))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "perf-6.1.187/at.csv",
        "perf-6.1.187/uprobe.csv",
        "perf-6.1.187/summary.csv",
        "perf-6.1.192/hardware.csv",
        "perf-6.1.192/topdown.csv",
        "sweep-quota/q020_r0.csv",
    ],
)
def test_totals_are_the_sums_of_the_rows(name, naive_totals):
    found = read_perf(FIXTURES / name)
    assert dict(zip(found.events, found.totals)) == naive_totals(FIXTURES / name)


def test_the_same_program_has_the_same_count_under_every_separator():
    """gzip of one file; what differs between runs is below a thousandth."""
    names = ("tab.csv", "space.csv", "colons.csv", "letter.csv", "hardware.csv", "hardware.jsonl")
    totals = [read_perf(FIXTURES / "perf-6.1.192" / name).totals[0] for name in names]
    assert np.ptp(totals) < 1e-3 * np.mean(totals)


def test_an_event_may_be_left_out_or_taken_alone():
    path = FIXTURES / "perf-6.1.192/not-supported.csv"
    assert read_perf(path, ["task-clock", "page-faults"]).events == ("task-clock", "page-faults")
    with pytest.raises(ProfileError, match="there is no event 'faults'; it has instructions,"):
        read_perf(path, ["faults"])
    never = FIXTURES / "perf-6.1.187/tools.csv"
    clock, passed = read_perf(never, ["task-clock", "duration_time"]).totals
    assert clock < passed == pytest.approx(read_perf(never, ["task-clock"]).times[-1] * 1e9)


def test_a_file_that_is_none_or_no_text(tmp_path):
    with pytest.raises(ProfileError, match="no such file"):
        read_perf(tmp_path / "none.csv")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match=r"bytes: is no text file; a recording"):
        read_perf(tmp_path / "bytes")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ProfileError, match="only perf's header"):
        read_perf(tmp_path / "empty")


@given(st.sampled_from(RECORDINGS), st.data())
@settings(max_examples=150)
def test_a_spoilt_recording_is_read_or_refused_in_a_sentence(name, data):
    text = spoil((FIXTURES / name).read_text(), data.draw)
    found, message = None, ""
    try:
        found = parse_perf(text, "spoilt")
    except ProfileError as error:
        message = str(error)
    if found is None:
        assert re.fullmatch(r"spoilt: [^\n]{5,400}[.']", message)
        return
    assert found.counts.shape == (len(found.times), len(found.events))
    assert np.isfinite(found.counts).all()
    assert (found.counts >= 0).all()
    assert np.all(np.diff(found.times, prepend=0) > 0)
    assert ((found.counted_share >= 0) & (found.counted_share <= 1 + 1e-9)).all()
    if found.times[-1] < 100:  # a digit more makes hours of it
        step = float(np.median(found.bins))
        np.testing.assert_allclose(resample(found, step).sum(axis=0), found.totals, rtol=1e-9)


def spoil(text, draw):
    """Cut, double, blank or replace a part of a recording."""
    start = draw(st.integers(0, len(text) - 1))
    stop = min(len(text), start + draw(st.integers(0, 30)))
    instead = draw(
        st.sampled_from(
            ["", text[start:stop] * 2, " ", ";", ",", "\n", "-", "9" * 25, "nan", "1e9", "<",
             "\x00", "٣", "1_0", "<not counted>", "<not supported>", "summary", "0.00", "{", '"',
             "🐧"]
        )
    )  # fmt: skip
    return text[:start] + instead + text[stop:]


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.parametrize("form", [["-x;"], ["-j"], ["-x\t", "--no-csv-summary", "--summary"]])
def test_what_the_perf_of_this_machine_writes_is_read(tmp_path, form):
    events = "task-clock,page-faults,context-switches"
    perf = ["perf", "stat", "-I", "20", *form, "-e", events, "-o", "F"]
    done = subprocess.run(
        [*perf, "--", sys.executable, "-c", "sum(range(10**7))"], cwd=tmp_path, check=False,
        capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode and "permission" in done.stderr.lower():
        pytest.skip("perf may not measure here")
    assert done.returncode == 0, done.stderr
    found = read_perf(tmp_path / "F")
    assert found.events == tuple(events.split(","))
    clock, faults, _ = found.totals
    assert 1e7 < clock < 1.2e9 * found.times[-1] + 2e7  # ns of one thread, and stamps lag
    assert faults > 100
