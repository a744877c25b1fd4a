"""Contexts of recordings: manifests and file names."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.sources.measure.manifest import (
    manifest_from_names,
    read_columns,
    read_manifest,
    with_levels_and_task,
)

CSV = """file,run,cpu_quota [%],ways,duration [ms],cpu_quota_achieved [%],cpu_quota_mechanism,steal
a.csv,0,20,4,3000.2,20.1,cgroup v1,0.01
sub/b.csv,1,100,4,648,,cgroup v1,
"""
TOML = """task = "sqlite"
platform = "two cores"
[resources.cpu_quota]
units = "%"
long_name = "share of a CPU"
levels = [20, 50.0, 100]
mechanism = "cgroup v1"
[[run]]
file = "a.csv"
cpu_quota = 20
duration = 3.0002
cpu_quota_achieved = 20.1
steal = 0.01
[[run]]
file = "sub/b.csv"
cpu_quota = 100
"""


def written(folder, text, name="runs.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_table_tells_contexts_and_what_is_known(tmp_path):
    found = read_manifest(written(tmp_path, CSV))
    first, second = found.entries
    assert first.path == tmp_path / "a.csv"
    assert second.path == tmp_path / "sub/b.csv"
    assert first.context == {"cpu_quota": 20, "ways": 4}
    assert first.achieved == {"cpu_quota": 20.1}
    assert first.metadata == {"duration": pytest.approx(3.0002), "steal": 0.01}
    assert (second.achieved, second.metadata) == ({}, {"duration": 0.648})
    assert found.resources == {
        "cpu_quota": {"units": "%", "mechanism": "cgroup v1"}, "ways": {"units": "1"},
    }  # fmt: skip


def test_runs_that_were_cut_are_told(tmp_path):
    table = "file,cpu_quota [%],duration [s],complete\na.csv,20,3,0\nb.csv,100,1,1\n"
    found = read_manifest(written(tmp_path, table))
    assert [entry.metadata["complete"] for entry in found.entries] == [0, 1]
    with pytest.raises(ProfileError, match=r"line 2: 'complete' is 0\.5; 1, or 0 for a run"):
        read_manifest(written(tmp_path, table.replace("3,0", "3,0.5")))


def test_toml_tells_the_same_and_more(tmp_path):
    found = read_manifest(written(tmp_path, TOML, "runs.toml"))
    first, second = found.entries
    assert (first.context, first.achieved) == ({"cpu_quota": 20}, {"cpu_quota": 20.1})
    assert first.metadata == {"duration": 3.0002, "steal": 0.01}
    assert second.path == tmp_path / "sub/b.csv"
    assert found.attrs == {"task": "sqlite", "platform": "two cores"}
    assert found.resources["cpu_quota"]["levels"] == [20, 50, 100]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("file,", "path,", "a header 'file,NAME [unit],...' with each name once is wanted"),
        ("ways", "cpu_quota", "with each name once"),
        ("ways", "2ways", "line 1: column '2ways' is invalid; 'name' or 'name [unit]' is wanted"),
        ("ways", "batch size [1]", "'batch_size [1]', without blanks or signs, is wanted"),
        (CSV, CSV.replace(",", ";"), "line 1 is one cell with ';': commas between columns"),
        ("ways", "duration [s]", "with each name once"),
        ("20,4,3000", "x,4,3000", "line 2: 'cpu_quota' is 'x'; a number is wanted"),
        ("20,4,3000", ",4,3000", "line 2: 'cpu_quota' is ''; a number is wanted"),
        ("20,4,3000", "nan,4,3000", "'cpu_quota' is 'nan'"),
        ("20,4,3000", "1e999,4,3000", "'cpu_quota' is '1e999'"),
        ("3000.2", "-3", "line 2: 'duration' is -0.003; seconds are wanted"),
        ("[ms]", "[days]", "'duration' is in 'days'; one of s, ms"),
        (",0.01", "", "line 2 has 7 cells, the header 8"),
        (",0.01", ",-0.01", "line 2: 'steal' is -0.01; 0 or more is wanted"),
        ("a.csv,", ",", "line 2: has no 'file'"),
        ("sub/b.csv", "a.csv", "run 2 is 'a.csv', as is run 1; each recording once"),
        (
            "100,4,648,,cgroup v1",
            "100,4,648,,cgroup v2",
            "line 3: 'cpu_quota' was set by 'cgroup v",
        ),
        (CSV.partition("\n")[2], "", "lists no runs"),
        ("ways", "time", "'time' is a name that msbgen reserves; rename it"),
        ("_achieved [%]", "_achieved [1]", "line 1: 'cpu_quota_achieved' is in '1'; '%' is wanted"),
        ("steal", "steal [%]", "line 1: 'steal' is in '%'; '1' is wanted"),
        (
            "quota_achieved",
            "qota_achieved",
            "line 1: 'cpu_qota_achieved' has no resource 'cpu_qota'",
        ),
        ("quota_mechanism", "share_mechanism", "'cpu_share_mechanism' has no resource 'cpu_share'"),
        ("duration", "durtion", "line 1: 'durtion' is unknown; 'duration' is wanted"),
        ("a.csv,0", "a.csv,r0", "line 2: 'run' is 'r0'; a number is wanted"),
        ("sub/b.csv,1,100", "sub/b.csv,0,20", "line 3: is run 0 of its context, as a.csv is"),
        ("sub/b.csv", "sub/../a.csv", "run 2 is 'a.csv', as is run 1; each recording once"),
        (CSV, "file,duration\na.csv,3\n", "has no resource"),
        (CSV, "", "a header 'file,NAME [unit],...'"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, old, new, sentence):
    assert old in CSV
    with pytest.raises(ProfileError) as caught:
        read_manifest(written(tmp_path, CSV.replace(old, new)))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("runs.csv: ")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('task = "sqlite"', "task = 3", "'task' is invalid"),
        ("platform", "plattform", "'plattform' is no known key; did you mean 'platform'"),
        ('units = "%"', "", "resource 'cpu_quota' has no units"),
        ("levels = [20, 50.0, 100]", "levels = []", "has no levels; a list is wanted"),
        ("levels = [20, 50.0, 100]", "levels = ['a']", "'levels' is 'a'; a number is wanted"),
        ("levels =", "level =", "'cpu_quota': 'level' is no known key; did you mean 'levels'"),
        ('long_name = "share of a CPU"', "long_name = 1", "'long_name' of 'cpu_quota' is invalid"),
        ("steal", "steel", "run 1: 'steel' is no known key; did you mean 'steal'"),
        ("cpu_quota = 100", "", "run 2: 'cpu_quota' is missing; its value is wanted"),
        ("cpu_quota = 100", "cpu_quota = true", "run 2: 'cpu_quota' is 'True'"),
        ("cpu_quota = 100", "cpu_quota = inf", "run 2: 'cpu_quota' is 'inf'"),
        ("cpu_quota = 100", f"cpu_quota = {'9' * 400}", "run 2: 'cpu_quota' is '9999"),
        ("cpu_quota = 100", f"cpu_quota = {'9' * 5000}", "be read as TOML (Exceeds the limit"),
        (
            "cpu_quota = 100",
            "cpu_quota = 20\nrun = 1\n[[run]]\nfile = 'c'\ncpu_quota = 20\nrun = 1",
            "run 3: is run 1 of its context, as b.csv is",
        ),
        (
            TOML,
            "[resources.w_achieved]\nunits = '1'",
            "'w_achieved' is a name that msbgen reserves",
        ),
        ('file = "a.csv"', "file = 1", "run 1: has no 'file'"),
        ("[[run]]", "[run]", "cannot be read as TOML"),
        ("[resources.cpu_quota]", "[resources]", "'units' is no table"),
        (TOML, "run = 3", "'run' is no list"),
        (TOML, "", "has no resource"),
        (TOML, "= = =", "cannot be read as TOML (Invalid statement"),
    ],
)
def test_what_is_wrong_with_toml_is_said(tmp_path, old, new, sentence):
    assert old in TOML
    with pytest.raises(ProfileError) as caught:
        read_manifest(written(tmp_path, TOML.replace(old, new), "runs.toml"))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("runs.toml: ")
    assert "\n" not in str(caught.value)


def test_a_manifest_may_hold_a_column_map_and_a_file_may(tmp_path):
    columns = '[columns]\n"time [s]" = "t"\na = "A"\n'
    found = read_manifest(written(tmp_path, 'totals = ["a"]\n' + TOML + columns, "runs.toml"))
    assert found.columns.columns == {"time [s]": "t", "a": "A"}
    alone = written(tmp_path, 'totals = ["a"]\n' + columns, "map.toml")
    assert read_columns(alone) == found.columns
    with pytest.raises(ProfileError, match="cannot be read as TOML"):
        read_columns(written(tmp_path, "t", "map.toml"))


def test_names_say_contexts():
    found = manifest_from_names(
        [f"x/gzip__ways={w}__bw=0500MBps__run=0{r}.perf.csv" for w in ("08", "4") for r in (1, 0)]
    )
    assert found.resources == {"ways": {"units": "1"}, "bw": {"units": "MBps"}}
    assert found.attrs == {"task": "gzip"}
    names = [e.path.name for e in found.entries]
    assert [re.search(r"run=(\d+)", name)[1] for name in names] == ["00", "00", "01", "01"]
    for entry in found.entries:
        ways = float(re.search(r"ways=(\d+)", entry.path.name)[1])
        assert entry.context == {"ways": ways, "bw": 500}


def test_a_pattern_says_where_in_a_name():
    found = manifest_from_names(
        ["sqlite-q020_r0.csv", "sqlite-q100.5_r0.csv"], "{task}-q{cpu_quota [%]}_r{run}.csv"
    )
    assert [e.context["cpu_quota"] for e in found.entries] == [20, 100.5]
    assert found.resources == {"cpu_quota": {"units": "%"}}
    assert found.attrs == {"task": "sqlite"}
    any_text = manifest_from_names(["2026-11 q7.csv"], "* q{q}.csv")
    assert any_text.entries[0].context == {"q": 7}


def test_levels_in_names_may_have_exponents():
    for names, pattern in ((["a__q=1e3.csv", "a__q=2E-1.csv"], ""), (["q1e3", "q2E-1"], "q{q}")):
        found = manifest_from_names(names, pattern)
        assert [e.context["q"] for e in found.entries] == [1000, 0.2]
        assert found.resources == {"q": {"units": "1"}}


@given(
    st.lists(st.tuples(st.integers(0, 999), st.floats(0.001, 999).map(lambda x: round(x, 3))),
             min_size=1, max_size=8, unique=True)
)  # fmt: skip
def test_what_a_name_was_made_of_is_read_from_it(contexts):
    names = [f"job__ways={ways}__clock={clock:.3f}GHz.csv" for ways, clock in contexts]
    found = manifest_from_names(names)
    read = {(e.context["ways"], e.context["clock"]) for e in found.entries}
    assert read == set(contexts)
    assert found.resources["clock"] == {"units": "GHz"}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["gzip.csv"], "gzip.csv: has no context"),
        (["gzip__4.csv"], "gzip__4.csv: '4' is no resource with a level"),
        (["g__w=1__w=2.csv"], "'w=2' is no resource with a level"),
        (["g__w=1.csv", "g__v=1.csv"], "has v [1], other names w [1]; the same resources"),
        (["g__w=1MB.csv", "g__w=1.csv"], "has w [1], other names w [MB]"),
        (["g__w=1.csv", "h__w=2.csv"], "names have the tasks g, h; one is wanted"),
        (["g__w=1.csv", "x/../g__w=1.csv"], "run 2 is 'g__w=1.csv', as is run 1; each recording"),
        (["g__load=1.csv"], "'load=1' is no resource with a level"),
        (["a/g__w=1__run=1.csv", "b/g__w=1__run=1.csv"], "is run 1 of its context, as"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        manifest_from_names(names)


def test_patterns_that_are_none_are_refused():
    with pytest.raises(ProfileError, match=r"a.csv: does not match 'q\{q\}.csv'"):
        manifest_from_names(["a.csv"], "q{q}.csv")
    for pattern in (
        "q{}.csv",
        "q{1}.csv",
        "q{q}{q}.csv",
        "q{run}.csv",
        "q{task}.csv",
        "q{load}.csv",
        "q{file}.csv",
    ):
        with pytest.raises(ArgumentError):
            manifest_from_names(["q1.csv"], pattern)


def test_levels_and_a_task_may_be_added():
    plain = manifest_from_names([Path("g__w=1.csv")])
    more = with_levels_and_task(plain, levels={"w": [1, 2]}, task="gzip")
    assert more.resources == {"w": {"units": "1", "levels": [1.0, 2.0]}}
    assert more.attrs == {"task": "gzip"}
    assert with_levels_and_task(plain, levels={}, task="").attrs == {"task": "g"}
    with pytest.raises(ArgumentError, match="levels are of 'v'; one of w is wanted"):
        with_levels_and_task(plain, levels={"v": [1]}, task="")
