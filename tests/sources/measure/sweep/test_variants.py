"""Variants of a program: runs interleaved, a file for each, and resumed as one sweep."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.answers.compare.matching import match_profiles
from msbgen.answers.compare.pairs import pair_profiles
from msbgen.core.errors import ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.measure.sweep.dry_run import describe_dry_run
from msbgen.sources.measure.sweep.journal import read_journal
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.spec import Variant, read_spec
from sweeping import WORK, machine, needs_perf, spec, tree

SCRIPT = "i=0; while [ $i -lt ${WORK:-3000} ]; do i=$((i+1)); done"
OLD = Variant("old", ("/bin/sh", "-c", SCRIPT), ".", "/dev/null", {})
TWO = spec(variants=(OLD, replace(OLD, name="new", environment={"WORK": "12000"})))
TOML = """
command = ["./work", "{n}"]
environment = {A = "1", B = "1"}
stdin = "in"
[resources.n]
by = "argument"
levels = [1, 2]
[variants.old]
[variants.new]
folder = "sub"
command = "./work -x {n}"
environment = {B = "2"}
"""


@pytest.fixture
def written(tmp_path):
    (tmp_path / "sub").mkdir()
    for place in ("in", "sub/in"):
        (tmp_path / place).touch()

    def write(text):
        (tmp_path / "s.toml").write_text(text)
        return read_spec(tmp_path / "s.toml")

    return write


def test_a_variant_replaces_command_folder_and_variables(written, tmp_path):
    programs = written(TOML).programs()
    assert list(programs) == ["old", "new"]
    old, new = programs.values()
    assert old.command_in([2.0]) == ("./work", "2")
    assert new.command_in([2.0]) == ("./work", "-x", "2")
    assert (old.environment, new.environment) == ({"A": "1", "B": "1"}, {"A": "1", "B": "2"})
    assert (old.folder, new.folder) == (str(tmp_path), str(tmp_path / "sub"))
    assert (old.stdin, new.stdin) == (str(tmp_path / "in"), str(tmp_path / "sub" / "in"))
    assert written(TOML).task == "work"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[variants.old]\n", "", "two or more tables '[variants.NAME]' are wanted"),
        ("[variants.old]", "[variants.'a/b']", "variant 'a/b': a name of letters"),
        ("[variants.old]", "[variants]\nold = 3\n", "variant 'old': is 3; a table is wanted"),
        ('folder = "sub"', 'floder = "sub"', "'floder' is no known key; did you mean 'folder'?"),
        ('folder = "sub"', 'folder = "no"', "variant 'new': 'folder' is '"),
        ("-x {n}", "-x", "'{n}' is nowhere in 'command'"),
        ('command = ["./work", "{n}"]\n', "", "variant 'old': 'command' is missing"),
    ],
)
def test_wrong_variants_are_a_sentence(written, old, new, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        written(TOML.replace(old, new))


@given(st.integers(0, 2**31), st.integers(1, 5))
def test_every_run_of_a_context_is_made_of_all_variants_one_after_the_other(seed, runs):
    order = run_order(replace(TWO, seed=seed, runs=runs))
    blocks = list(zip(order.slots[::2], order.slots[1::2]))
    assert len(blocks) == len({(one.context, one.run) for one, _ in blocks}) == 3 * runs
    for one, other in blocks:
        assert (one.context, one.run) == (other.context, other.run)
        assert {one.variant, other.variant} == {"old", "new"}


def test_their_order_is_random():
    first = [one.variant for one in run_order(replace(TWO, runs=99)).slots[::2]]
    assert 0.4 < np.mean([name == "old" for name in first]) < 0.6


@needs_perf
def test_an_interrupted_sweep_of_variants_becomes_a_file_each(tmp_path):
    kernel, out = machine(tmp_path), tmp_path / "out.nc"
    before = tree(kernel)
    (tmp_path / "plan.csv").write_text("cache_ways,runs\n2,2\n8,2\n")
    planned = replace(TWO, contexts=str(tmp_path / "plan.csv"), warmups=1)

    def stop(done, total):
        assert total == 8
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(planned, out, files=kernel, progress=stop)
    assert tree(kernel) == before
    changed = replace(planned, variants=planned.variants[::-1])
    with pytest.raises(ProfileError, match="was started with another spec"):
        measure(changed, out, files=kernel, resume=True)
    lines = list(measure(planned, out, files=kernel, resume=True).describe())
    old, new = (read_profiles(tmp_path / f"out-{name}.nc") for name in ("old", "new"))
    assert [line for line in lines if "runs" in line and "contexts" in line] == [
        f"{tmp_path}/out-{name}.nc: 2 contexts, 4 runs" for name in ("old", "new")
    ]
    records = read_journal(tmp_path / "out.journal")
    assert sum(record["event"] == "run" for record in records) == 8
    assert (old.attrs["variant"], new.attrs["variant"]) == ("old", "new")
    assert old.attrs["sweep"] == new.attrs["sweep"] == records[0]["tag"]
    assert old.attrs["task"] == new.attrs["task"] == "work"
    assert new["cpu_time"].mean() > 1.2 * old["cpu_time"].mean()
    # runs of equal number follow each other on one clock
    started = np.sort(np.stack([part["started"].values.ravel() for part in (old, new)]), axis=0)
    assert (np.sort(started, axis=1)[0, 1:] > np.sort(started, axis=1)[1, :-1]).all()
    with pytest.raises(FileExistsError, match=r"out-old\.nc"):
        measure(planned, out, files=kernel, resume=True)
    # a second sweep of both, added to the first
    more = replace(TWO, contexts="grid:2", runs=1)
    measure(more, tmp_path / "both.nc", first=out, files=kernel)
    both = [read_profiles(tmp_path / f"both-{name}.nc") for name in ("old", "new")]
    assert [int(part["duration"].notnull().sum()) for part in both] == [6, 6]
    assert both[0].attrs["sweep"] == both[1].attrs["sweep"] != old.attrs["sweep"]
    # onto runs that were not interleaved
    for name, part in (("old", old), ("new", new)):
        del part.attrs["sweep"]
        write_profiles(part, tmp_path / f"bare-{name}.nc")
    measure(more, tmp_path / "mixed.nc", first=tmp_path / "bare.nc", files=kernel)
    assert "sweep" not in read_profiles(tmp_path / "mixed-old.nc").attrs


def test_what_was_interleaved_is_compared_without_a_note_about_drift():
    old = read_profiles(shipped_file("gzip.nc")).isel(context=slice(None, None, 12))
    one, other = (old.assign_attrs(sweep=sweep) for sweep in "ab")
    began = np.arange(float(old["duration"].size)).reshape(old["duration"].shape)
    timed, later = (
        one.assign(started=(("context", "run"), began + delay, {"units": "s"}))
        for delay in (0, 0.4)
    )
    pairs = ((one, old, True), (one, one, True), (timed, later, False), (one, other, True))
    for *both, noted in pairs:
        first, second = map(Profiles.of, both)
        notes = pair_profiles(first, second, match_profiles(first, second)).notes
        assert any("drift" in note for note in notes) == noted


@needs_perf
def test_a_variant_that_fails_is_named(tmp_path):
    failing = replace(OLD, name="new", command=("/bin/sh", "-c", f"exit ${{E:-7}}; {WORK[2]}"))
    one = spec(variants=(OLD, failing, replace(OLD, name="third")), runs=1, retries=0)
    with pytest.raises(Exception, match="run 0 of variant new of context cache_ways=2: exited"):
        measure(one, tmp_path / "out.nc", files=machine(tmp_path))
    assert not list(tmp_path.glob("*.nc"))


@needs_perf
def test_a_dry_run_shows_and_times_every_variant(tmp_path):
    lines = list(describe_dry_run(replace(TWO, seconds=1.0), machine(tmp_path)))
    assert lines[0] == "plan: 3 contexts, 12 runs of 2 variants in random order"
    assert sum(line.startswith("variant ") for line in lines) == 2
    assert any(re.match(r"  run 0: (old|new), cache_ways=", line) for line in lines)
    # 2 runs of 2 variants: 4 · (1 + 2 + 4) s
    assert any(line.startswith("time: about 0 min 28 s") for line in lines)
    trial = "\n".join(describe_dry_run(TWO, machine(tmp_path / "m"), trial=True))
    assert "runs of the variants without limits took" in trial
