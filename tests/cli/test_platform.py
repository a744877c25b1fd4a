"""``msbgen platform``."""

from pathlib import Path

import numpy as np
import pytest

from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, counter_names
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.platform import write_stream
from streams import random_lines, random_stream, stream_of

TRACES = Path(__file__).resolve().parents[2] / "profiles" / "traces"
GZIP, OPENSSL = TRACES / "gzip.nc", TRACES / "openssl.nc"


def test_platform_replays_a_trace_in_a_grid_and_in_the_contexts_of_a_file(tmp_path, msbgen):
    replaying = ["platform", "replay", GZIP, "--runs", 2, "--seed", 3]
    for name, source in (("a.nc", "grid:2x1x2"), ("b.nc", "a.nc")):
        done = msbgen(*replaying, "-o", name, "--contexts", source)
        assert done.returncode == 0, done.stderr
        assert f"{name}: 4 contexts, 2 runs each" in done.stdout
    a, b = (read_profiles(tmp_path / name) for name in ("a.nc", "b.nc"))
    np.testing.assert_array_equal(Profiles.of(a).counts, Profiles.of(b).counts)
    wanted = [[ways, 1400, clock] for ways in (2, 20) for clock in (1.2, 2.3)]
    np.testing.assert_array_equal(context_table(a), wanted)


def test_runs_are_those_of_a_plan_unless_they_are_given(tmp_path, msbgen):
    (tmp_path / "p.csv").write_text(
        "cache_ways,bandwidth,frequency,runs\n20,1400,2.3,1\n10,700,2.3,3\n"
    )
    replaying = ["platform", "replay", OPENSSL, "--contexts", "p.csv"]
    assert "a.nc: 2 contexts, 4 runs\n" in msbgen(*replaying, "-o", "a.nc").stdout
    given = msbgen(*replaying, "-o", "b.nc", "--runs", 2)
    assert "b.nc: 2 contexts, 2 runs each" in given.stdout


def test_runs_replayed_before_stand_beside_the_new_ones(tmp_path, msbgen, refused):
    (tmp_path / "next.csv").write_text(
        "cache_ways,bandwidth,frequency,runs\n10,700,2.3,1\n20,1400,1.2,2\n"
    )
    replaying = ["platform", "replay", OPENSSL]
    assert msbgen(*replaying, "--contexts", "grid:1x1x1", "--runs", 2, "-o", "a.nc").returncode == 0
    first = read_profiles(tmp_path / "a.nc")
    more = ["--contexts", "next.csv", "--with", "a.nc", "-o"]
    done = msbgen(*replaying, *more, "b.nc")
    assert "b.nc: 3 contexts, 5 runs\n" in done.stdout, done.stderr
    whole = read_profiles(tmp_path / "b.nc")
    same = (context_table(whole) == context_table(first)).all(axis=1)
    np.testing.assert_array_equal(
        Profiles.of(whole).counts[same][..., : first.sizes["time"], :], Profiles.of(first).counts
    )
    assert whole.attrs["seed"] == "0"
    again = ["--contexts", "next.csv", "--with", "b.nc", "-o", "c.nc"]
    refused(2, "b.nc: already has runs of seed 0 in these contexts", *replaying, *again)
    done = msbgen(*replaying, *again, "--seed", 1)
    assert "c.nc: 3 contexts, 8 runs\n" in done.stdout
    assert "has the task" not in done.stderr
    (tmp_path / "anew.csv").write_text(
        "cache_ways,bandwidth,frequency,runs,again\n10,700,2.3,1,0\n20,1400,1.2,1,1\n"
    )
    anew = ["--contexts", "anew.csv", "--with", "b.nc", "--seed", 1, "-o", "f.nc"]
    assert "f.nc: 3 contexts, 5 runs\n" in msbgen(*replaying, *anew).stdout
    assert read_profiles(tmp_path / "c.nc").attrs["seed"] == "0, 1"
    message = (
        "a.nc has the task 'openssl PBKDF2 then AES over 33 MB', the trace has 'gzip -6 of 5.5 MB'"
    )
    assert message in msbgen("platform", "replay", GZIP, *more, "e.nc").stderr
    refused(3, "is sampled every 0.01 s", *replaying, "--interval", "5ms", *more, "d.nc")


def test_equal_durations_among_runs_replayed_before_do_not_matter(tmp_path, msbgen, refused):
    replaying = ["platform", "replay", OPENSSL, "--contexts"]
    assert msbgen(*replaying, "grid:1x1x1", "--runs", 3, "-o", "new.nc").returncode == 0
    first = read_profiles(tmp_path / "new.nc")
    first["duration"].values[0, 1] = first["duration"].values[0, 0]
    write_profiles(first, tmp_path / "a.nc")
    more = ["--runs", 1, "--with", "a.nc", "--seed"]
    done = msbgen(*replaying, "grid:1x1x1", *more, 1, "-o", "b.nc")
    assert "b.nc: 1 context, 4 runs\n" in done.stdout, done.stderr
    message = "a.nc: already has runs of seed 0 in these contexts"
    refused(2, message, *replaying, "grid:1x1x1", *more, 0, "-o", "c.nc")


REPLAY_ERRORS = [
    ("no.nc", "all", [], 3, "no.nc: no such file"),
    ("measured.nc", "all", [], 3, "measured.nc: "),
    (GZIP, "grid:3x3", [], 2, "a number of levels for each of cache_ways, bandwidth, frequency"),
    (GZIP, "grid:99x1x1", [], 2, "a number from 1 to 19 is wanted"),
    (GZIP, "no.csv", [], 3, "no.csv: no such file"),
    (GZIP, "off.csv", [], 3, "off.csv: "),
    (GZIP, "measured.nc", [], 3, "measured.nc: has contexts of cache_ways, frequency"),
    (GZIP, "all", ["--runs", "0"], 2, "'0' is not a whole number"),
    (OPENSSL, "grid:1x1x1", ["--interval", "1e-12"], 2, "steps to play"),
    (OPENSSL, "grid:1x1x1", ["--runs", "1000000000"], 2, "this machine has"),
    (OPENSSL, "grid:1x1x1", ["--interval", "1e9"], 2, "up to 3600 [s]"),
    (OPENSSL, "grid:1x1x1", ["--loop"], 2, "--loop is for --beside"),
    (OPENSSL, "grid:1x1x1", ["--channel", "queue"], 2, "--channel is for --beside"),
]


@pytest.mark.parametrize(("trace", "source", "given", "code", "sentence"), REPLAY_ERRORS)
def test_replays_that_cannot_be_are_refused(folder, refused, trace, source, given, code, sentence):
    (folder / "off.csv").write_text("cache_ways,bandwidth,frequency\n20,1401,2.3\n")
    arguments = ("platform", "replay", trace, "-o", "o.nc", "--contexts", source, *given)
    refused(code, sentence, *arguments)


def test_a_replay_does_not_overwrite_what_there_is(folder, refused):
    (folder / "c.csv").write_text("cache_ways,bandwidth,frequency\n20,1400,2.3\n")
    replaying = ("platform", "replay", OPENSSL, "--contexts", "c.csv", "-o")
    refused(2, "c.csv: is the input 'c.csv', too", *replaying, "c.csv", "--force")
    refused(2, "exists already", *replaying, "truth.nc")


RECORD_ERRORS = [
    (["-o", "o.nc"], 2, "no command to record"),
    (["-o", "-", "--", "true"], 2, "'-' (stdout) is for tables only"),
    (["-o", "truth.nc", "--", "true"], 2, "exists already"),
    (["-o", "o.nc", "--stdin", "no.txt", "--", "true"], 3, "no.txt: no such file"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), RECORD_ERRORS)
def test_records_that_cannot_be_are_refused(folder, refused, arguments, code, sentence):
    refused(code, sentence, "platform", "record", *arguments)


def test_what_cannot_be_recorded_says_why(refused, monkeypatch):
    from msbgen.sources.platform import record

    def missing():
        raise record.RecordError("recording needs gcc, not found here.")

    monkeypatch.setattr(record, "check_recording_needs", missing)
    refused(2, "recording needs gcc", "platform", "record", "-o", "o.nc", "--", "true")


def test_programs_are_replayed_beside_others(tmp_path, msbgen, refused):
    for seed, name in enumerate(("a.nc", "b.nc")):
        write_stream(random_stream(seed), tmp_path / name)
    context = "cache_ways,bandwidth,frequency\n4,700,2.0\n20,700,2.0\n"
    (tmp_path / "c.csv").write_text(context)
    replaying = ["platform", "replay", "a.nc", "--contexts", "c.csv", "--runs", 2]
    done = msbgen(*replaying, "--beside", "b.nc", "--loop", "-o", "out.nc")
    assert "out.nc: 2 contexts, 2 runs each" in done.stdout, done.stderr
    beside = read_profiles(tmp_path / "out.nc")
    assert counter_names(beside)[-1] == "prefetched_misses"
    few, many = Profiles.of(beside).mean_duration
    assert few > 1.02 * many
    write_stream(stream_of(random_lines(1, 2000), 20), tmp_path / "few.nc")
    planned = "cache_ways,bandwidth,frequency,runs\n4,700,2.0,1\n20,700,2.0,3\n"
    (tmp_path / "c.csv").write_text(planned)
    done = msbgen("platform", "replay", "few.nc", "--contexts", "c.csv", "--beside", "few.nc",
                  "--interval", "20us", "-o", "few-out.nc")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "few-out.nc: 2 contexts, 4 runs\n" in done.stdout
    found = read_profiles(tmp_path / "few-out.nc")
    assert found["duration"].notnull().sum("run").values.tolist() == [1, 3]
    assert "prefetched_misses" not in counter_names(found)
    refused(3, "a.nc: attribute 'schema' is 'msbgen-stream/1'", *replaying, "-o", "d.nc")
    refused(2, "--with is", *replaying, "--beside", "b.nc", "--with", "out.nc", "-o", "d.nc")
