"""Outputs are checked before the work: a bad one is refused in a sentence, and nothing changes."""

from pathlib import Path

import pytest

from msbgen.cli.main import command_line
from verbs import outputs_of

# A verb, its inputs (none can be read: outputs are looked at first), and its outputs.
FILES = """
measure spec.toml: -o o.nc
import a.txt: -o o.nc
plan a.nc --budget 2: -o o.csv, --json o.json
generate a.nc --contexts a.csv: -o o.nc, --model o.nc
bound a.nc --contexts a.csv: -o o.csv, --model o.nc
choose a.nc --deadline 1s --cost cache_ways=1: -o o.csv, --json o.json, --measure o.csv
report a.nc: -o o.html
compare a.nc b.nc: -o o.csv, --json o.json, --report o.html
export a.nc --format perfetto: -o o.pftrace
beside predict a.nc b.nc: -o o.nc, --json o.json, --picture o.png
beside repair a.nc b.nc: -o o.csv, --json o.json
beside choose a.nc b.nc: -o o.csv, --json o.json
platform replay a.nc --contexts a.csv: -o o.nc
platform record -- /bin/true: -o o.nc, --stream o.nc
realtime phases a.nc: -o o.nc
realtime taskset a.nc --utilisation 1: -o o.toml
realtime simulate a.toml --tables folder --truth folder: -o o.nc
runtime import a.csv: -o o.nc
runtime fit a.nc: -o o.nc
runtime predict a.nc --wanted a.csv: -o o.csv
runtime bound a.nc --wanted a.csv: -o o.csv
runtime evaluate a.nc: -o o.csv
machines import a.csv: -o o.nc
machines fit a.nc: -o o.nc
machines predict a.nc --runs b.nc --source old: -o o.csv
machines evaluate a.nc: -o o.csv
kernels measure spec.toml: -o o.nc
kernels choose a.nc: -o o.csv
kernels import a.csv --columns a.toml: -o o.nc
kernels fit a.nc: -o o.nc
kernels predict a.nc --workload a.csv: -o o.csv
kernels evaluate a.nc: -o o.csv
graph check a.nc: -o o.json
graph simulate a.nc --device tx2 --contexts a.csv --profiles folder: -o o.nc
graph fit a.nc --device tx2 --graphs folder --profiles folder: -o o.nc
graph predict a.nc b.nc --device tx2 --contexts a.csv: -o o.csv
graph choose a.nc b.nc --device tx2 --contexts a.csv: -o o.csv
"""
# Verbs that write a folder, with a file that each writes into it.
FOLDERS = """
evaluate a.nc --truth b.nc: scores.nc
demo: report.html
machines queue a.toml: queue.csv
"""
KEPT = b"of another program"


def lines_of(table):
    for line in table.strip().splitlines():
        verb, _, outputs = line.partition(": ")
        yield from ((verb.split(), output) for output in outputs.split(", "))


def test_the_tables_name_every_output_of_every_verb():
    found = [(" ".join(verb), output.split()[0]) for verb, output in lines_of(FILES)]
    found += [(" ".join(verb), "-o") for verb, _ in lines_of(FOLDERS)]
    found += [("batch", "-o"), ("find", "-o")]  # they write into a folder that they continue
    missing = [
        each for each in outputs_of(command_line())
        if not any(f"{line} ".startswith(f"{each[0]} ") and flag == each[1] for line, flag in found)
    ]  # fmt: skip
    assert missing == []


@pytest.fixture
def place(tmp_path):
    """A folder with inputs that cannot be read, and outputs that cannot be written."""
    for name in ("a.nc", "b.nc", "a.toml", "a.csv", "a.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "spec.toml").write_text(
        'command = ["true"]\n[resources.share]\nby = "quota"\nlevels = [50, 100]\n'
    )
    return tmp_path


def test_a_sweep_looks_at_its_output_before_its_spec(refused, place):
    refused(2, "there is no folder", "measure", "a.toml", "-o", "none/o.nc")


def broken(place, name):
    """Outputs that cannot be written, and what the sentence says of each."""
    suffix = Path(name).suffix
    (place / f"there{suffix}").write_bytes(KEPT)
    (place / f"taken{suffix}").mkdir()
    (place / f"loop{suffix}").symlink_to(f"loop{suffix}")
    return {
        f"there{suffix}": "exists already",
        f"taken{suffix}": "is no regular file",
        f"none/o{suffix}": "there is no folder",
        f"loop{suffix}": "form a loop",
        f"/proc/o{suffix}": "nothing can be written",
        f"{'n' * 300}{suffix}": "cannot be written",
        f"there{suffix}/o{suffix}": "there is no folder",
    }


@pytest.mark.parametrize(("verb", "output"), [*lines_of(FILES)], ids=lambda part: "".join(part))
def test_an_output_that_cannot_be_written_is_refused_before_the_work(refused, place, verb, output):
    flag, name = output.split()
    more = ["-o", f"fine{Path(name).suffix}"] if flag != "-o" else []
    at = verb.index("--") if "--" in verb else len(verb)
    for path, sentence in broken(place, name).items():
        done = refused(2, sentence, *verb[:at], *more, flag, path, *verb[at:])
        assert done.stderr.count("\n") == 1
        assert not done.stdout


@pytest.mark.parametrize(("verb", "name"), [*lines_of(FOLDERS)], ids=lambda part: "".join(part))
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(refused, place, verb, name):
    (place / "there").mkdir()
    (place / "there" / name).write_bytes(KEPT)
    (place / "file").write_bytes(KEPT)
    (place / "loop").symlink_to("loop")
    for path in ("there", "file", "loop", "file/o", "/proc/o", "n" * 300):
        done = refused(2, "", *verb, "-o", path)
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"msbgen: {path}")
