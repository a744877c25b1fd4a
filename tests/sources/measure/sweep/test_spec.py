"""Specs: read whole, or refused in a sentence."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings

import msbgen
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec, read_spec
from strategies import texts
from sweeping import spec, work

LEAST = 'command = ["xz", "-k", "f"]\n[resources.cpu_share]\nby = "quota"\nlevels = [100, 25]\n'


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "s.toml"
        path.write_text(text)
        return path

    return write


def test_the_shortest_spec_has_defaults_for_the_rest(write, tmp_path):
    spec = read_spec(write(LEAST))
    assert spec == Spec(
        command=("xz", "-k", "f"),
        resources=(ResourceSpec("cpu_share", "quota", (25.0, 100.0)),),
        task="xz",
        folder=str(tmp_path),
    )
    assert spec.stdin == os.devnull


def test_the_spec_of_the_page_is_one(write):
    page = Path(msbgen.__file__).parent / "sources" / "measure" / "README.md"
    (text,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)[:1]
    spec = read_spec(write(text))
    assert spec.resources[0].by == "quota"
    assert len(spec.resources[0].levels) >= 8
    assert (spec.runs, spec.timeout, spec.cooldown) == (5, 60, 0.1)


def test_every_key_is_read(write, tmp_path):
    (tmp_path / "in").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "in").write_text("")
    text = """
task = "t"
command = "python3 -c 'print(1)'"
folder = "sub"
stdin = "in"
interval = "20ms"
events = ["instructions", "raw_syscalls:sys_enter"]
progress = "raw_syscalls:sys_enter"
contexts = "plan.csv"
runs = 3
warmups = 2
retries = 4
seed = 9
cores = [0, 2]
at_once = 2
cooldown = 0.5
timeout = "2min"
keep_cut = true
seconds = "1.5s"
environment = {A = "b"}
[resources.ways]
by = "ways"
levels = [2, 4]
[resources.bandwidth]
by = "memguard"
direction = "write"
levels = [100]
[resources.share]
by = "quota"
period = "50ms"
levels = [50.5]
"""
    assert read_spec(write(text)) == Spec(
        command=("python3", "-c", "print(1)"),
        resources=(
            ResourceSpec("ways", "ways", (2.0, 4.0)),
            ResourceSpec("bandwidth", "memguard", (100.0,), None, "write"),
            ResourceSpec("share", "quota", (50.5,), 0.05),
        ),
        task="t",
        folder=str(tmp_path / "sub"),
        stdin=str(tmp_path / "sub" / "in"),
        environment={"A": "b"},
        interval=0.02,
        events=("instructions", "raw_syscalls:sys_enter"),
        progress="raw_syscalls:sys_enter",
        contexts=str(tmp_path / "plan.csv"),
        runs=3,
        warmups=2,
        retries=4,
        seed=9,
        cores=(0, 2),
        at_once=2,
        cooldown=0.5,
        timeout=120.0,
        keep_cut=True,
        seconds=1.5,
    )


WRONG = {
    "runs = 0": "'runs' is 0; a whole number from 1",
    "runs = 1.5": "'runs' is 1.5",
    "runs = true": "'runs' is True",
    "run = 3": "'run' is no known key; did you mean 'runs'?",
    "interval = '1us'": "'interval' is '1us'; a time of 0.001 s or more",
    "interval = 'ms'": "'interval' is 'ms'",
    "timeout = -1": "'timeout' is -1",
    "timeout = nan": "'timeout' is nan",
    "events = []": "'events' is []; a list of distinct names",
    "events = ['a', 'a']": "'events' is",
    "events = 'a'": "'events' is 'a'",
    "at_once = 0": "'at_once' is 0; a whole number from 1",
    "keep_cut = 1": "'keep_cut' is 1; true or false is wanted",
    "cores = [-1]": "'cores' is [-1]; a list of distinct core numbers",
    "cores = [0, 0]": "'cores' is [0, 0]",
    "folder = 'none'": "an existing folder is wanted",
    "stdin = 'none'": "none: no such file",
    "task = ''": "'task' is ''; a text that is not empty is wanted",
    "environment = {A = 1}": "'environment' is {'A': 1}; a table of texts",
    f"timeout = 1{'0' * 400}": "'timeout' is 1000",
    f"runs = 1{'0' * 5000}": "cannot be read as TOML (Exceeds the limit",
    f"runs = {'[' * 5000}{']' * 5000}": "cannot be read as TOML (maximum recursion",
    "progress = 'instructions'": "'progress' is 'instructions', which is not counted; task-clock",
    "interval = 0.0105": "whole milliseconds",
}


@pytest.mark.parametrize(("line", "sentence"), WRONG.items(), ids=lambda text: text[:40])
def test_a_wrong_value_is_a_sentence_with_key_and_remedy(write, line, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        read_spec(write(f"{line}\n{LEAST}"))


@pytest.mark.parametrize("word", ["page-faults", "page_faults", "time"])
def test_progress_is_told_by_what_is_counted_or_by_time(write, word):
    assert read_spec(write(f"progress = '{word}'\n{LEAST}")).progress == word
    several = f"events = ['probe_x:*']\nprogress = 'probe_x:f'\n{LEAST}"
    assert read_spec(write(several)).progress == "probe_x:f"


RESOURCES = {
    "by = 'quot'\nlevels = [1]": "did you mean 'quota'?",
    "by = 'quota'": "'levels' is missing",
    "by = 'quota'\nlevels = []": "distinct positive numbers",
    "by = 'quota'\nlevels = [0]": "distinct positive numbers",
    "by = 'quota'\nlevels = [5, 5.0]": "distinct positive numbers",
    "by = 'ways'\nlevels = [5]\nperiod = '10ms'": "'period' belongs to 'quota'",
    "by = 'quota'\nlevels = [5]\ndirection = 'read'": "'direction' belongs to 'memguard', 'io'",
    "by = 'memguard'\nlevels = [5]\ndirection = 'up'": "read or write",
    "by = 'quota'\nlevel = [5]": "did you mean 'levels'?",
    "by = 'quota'\nlevels = ['a']": "distinct positive numbers below 1e+12 are",
    "by = 'argument'\nlevels = [1, 'a']": "distinct numbers below 1e+12, or distinct words, are",
    "by = 'argument'\nlevels = ['a', 'a']": "distinct words, are",
    "by = 'argument'\nlevels = ['a ', 'b']": "distinct words, are",
    "by = 'argument'\nlevels = [1]": "'{r}' is nowhere in 'command'",
    "by = 'environment'\nlevels = [1]": "'name' is ''; that of a variable",
    "by = 'environment'\nname = 'A=B'\nlevels = [1]": "'name' is 'A=B'",
    "by = 'cores'\nlevels = [0]": "or distinct words, such as '0-2,5'",
    "by = 'cores'\nlevels = ['0', 'all']": "such as '0-2,5'",
    "by = 'cores'\nlevels = ['0', '5-2']": "such as '0-2,5'",
    "by = 'hook'\ncommand = 'none'\nlevels = [1]": "an executable file is wanted",
    "by = 'pressure'\nlevels = [-1]": "below 1e+12, or 0 for no stressor,",
    "by = 'pressure'\nwhat = 'heat'\nlevels = [1]": "'bandwidth' or 'working set' is wanted",
    "by = 'pressure'\ncores = 'all'\nlevels = [1]": "a list of distinct core numbers",
    "by = 'ways'\ncores = [1]\nlevels = [1]": "'cores' belongs to 'pressure'",
    "by = 'memory'\ndevice = '/dev/sda'\nlevels = [1]": "'device' belongs to 'io'; drop it",
}


@pytest.mark.parametrize(("lines", "sentence"), RESOURCES.items(), ids=RESOURCES)
def test_a_wrong_resource_is_a_sentence(write, lines, sentence):
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        read_spec(write(f"command = ['a']\n[resources.r]\n{lines}\n"))


ANY = """
command = ["{algorithm}", "-{level}", "{print $1}", "{level}{level}"]
environment = {A = "b", THREADS = "9"}
[resources.algorithm]
by = "argument"
levels = ["xz", "gzip"]
[resources.level]
by = "argument"
units = "B"
levels = [1000000, -1, 0.5]
[resources.threads]
by = "environment"
name = "THREADS"
levels = [1, 4]
[resources.where]
by = "cores"
levels = ["0,2-3", "1"]
"""


def test_arguments_and_variables_are_told_to_the_program(write):
    spec = read_spec(write(ANY))
    algorithm, level, _, where = spec.resources
    assert (algorithm.labels, algorithm.levels) == (("xz", "gzip"), (1.0, 2.0))
    assert (level.labels, level.levels, level.units) == ((), (-1.0, 0.5, 1e6), "B")
    assert where.core_sets() == {1.0: (0, 2, 3), 2.0: (1,)}
    context = [2.0, 1e6, 4.0, 1.0]
    assert spec.command_in(context) == ("gzip", "-1000000", "{print $1}", "10000001000000")
    assert spec.environment_in(context) == {"A": "b", "THREADS": "4"}
    assert spec.describe(context) == "algorithm=gzip, level=1000000, threads=4, where=0,2-3"
    other = read_spec(write(ANY.replace('"xz", "gzip"', '"gzip", "xz"')))
    assert spec.digest([context], [1]) != other.digest([context], [1])


@pytest.mark.parametrize("command", ["[]", "''", "['']", "[1]", '"a \'"', "3", '["a\\u0000"]'])
def test_what_is_no_command_is_refused(write, command):
    with pytest.raises(ProfileError, match=r"'command' (is|cannot be split)"):
        read_spec(write(LEAST.replace('["xz", "-k", "f"]', command)))


def test_names_of_resources_are_names(write):
    for name in ("duration", "context", "load", '"a b"', "x_achieved"):
        with pytest.raises(ProfileError, match="a name of letters"):
            read_spec(write(LEAST.replace("cpu_share", name)))
    with pytest.raises(ProfileError, match="a table"):
        read_spec(write("command = ['a']\nresources = 3"))


def test_two_resources_of_one_means_are_refused(write):
    second = '[resources.other]\nby = "quota"\nlevels = [5]\n'
    with pytest.raises(ProfileError, match="by the same actuator"):
        read_spec(write(LEAST + second))


@settings(max_examples=15)
@given(texts(max_size=60))
def test_any_text_is_a_spec_or_a_sentence(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "s.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ProfileError, match=r"s\.toml: "):
        read_spec(path)


def test_digests_tell_specs_apart_by_what_changes_a_run(write):
    spec = read_spec(write(LEAST))
    levels = read_spec(write(LEAST.replace("[100, 25]", "[100, 50]")))
    timeout = read_spec(write(f"timeout = 3\n{LEAST}"))
    rows, runs = [[25.0], [100.0]], [5, 5]
    digests = {one.digest(rows, runs) for one in (spec, levels, timeout)}
    digests |= {spec.digest(rows, [5, 6]), spec.digest(rows[:1], runs[:1])}
    assert len(digests) == 5
    other = read_spec(write(f"progress = 'time'\nseconds = 3\n{LEAST}"))
    assert other.digest(rows, runs) == spec.digest(rows, runs)


def test_journals_of_before_there_were_groups_and_cut_runs_are_gone_on_with():
    """The digest of a plain spec is what it was."""
    ways = ResourceSpec("cache_ways", "ways", (2.0, 4.0))
    one = spec(*work(12000), resources=(ways,), timeout=3.0)
    assert one.digest([[2.0], [4.0]], [1, 2], ((), ())) == "41aa00220d3f411aff0e3eb2e2e6bbd3"


def test_groups_and_keeping_cut_runs_make_other_runs():
    whole, cut = spec(), spec(keep_cut=True)
    groups = (("a", "b"), ("a", "c"))
    digests = {one.digest([[2]], [4], g) for one in (whole, cut) for g in ((), (groups,))}
    assert len(digests) == 4
    assert spec(at_once=3).digest([[2]], [4], (groups,)) in digests  # its groups tell
