"""Tables of times as people keep them, without a column map."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.sources.timings.read import holds_timings, read_timings
from msbgen.sources.timings.tables import Roles, is_table_of_times, read_times
from msbgen.sources.timings.timings import profiles_of

# Cores × megabytes, two runs each, and its times [s].
ROWS = [(cores, size, run, (0.5 + size / cores) * (1 + run / 100))
        for cores in (1, 2, 4) for size in (1, 3) for run in (0, 1)]  # fmt: skip


def written(folder, text, name="t.csv", encoding="utf-8"):
    (folder / name).write_text(text, encoding=encoding, newline="")
    return folder / name


def table(head, row, separator=","):
    lines = [head, *(separator.join(row(*values)) for values in ROWS)]
    return "\n".join(lines) + "\n"


PLAIN = table("cores,size,seconds", lambda c, s, r, t: (f"{c}", f"{s}", f"{t:.6f}"))
SPELLINGS = {
    "name that is a unit": PLAIN,
    "unit in square brackets": table(
        "cores,size [MB],time [ms]", lambda c, s, r, t: (f"{c}", f"{s}", f"{1e3 * t:.3f}")
    ),
    "unit in round brackets, capitals": table(
        "Cores,Size (MB),Time (us)", lambda c, s, r, t: (f"{c}", f"{s}", f"{1e6 * t:.0f}")
    ),
    "unit as a suffix": table(
        "cores,size_mb,runtime_ms", lambda c, s, r, t: (f"{c}", f"{s}", f"{1e3 * t:.3f}")
    ),
    "run numbers and derived columns": table(
        "run,cores,size,duration,speedup",
        lambda c, s, r, t: (f"{r}", f"{c}", f"{s}", f"{t:.6f}", f"{1 / t:.3f}"),
    ),
    "semicolons and decimal commas": table(
        "cores;size;time [s]",
        lambda c, s, r, t: (f"{c}", f"{s}", f"{t:.6f}".replace(".", ",")),
        ";",
    ),
    "thousands": table(
        "cores,size,elapsed (ms)", lambda c, s, r, t: (f"{c}", f"{s}", f'"{1e3 * t:,.3f}"')
    ),
    "tabs": table("cores\tsize\twall time", lambda c, s, r, t: (f"{c}", f"{s}", f"{t:.6f}"), "\t"),
    "Markdown": table(
        "| cores | size | time |\n|---|---:|:--|",
        lambda c, s, r, t: (f"| {c} | {s} | {t:.6f} |",),
    ),
    "units in cells": table(
        "cores,size,time", lambda c, s, r, t: (f"{c}", f"{s}", f"{1e3 * t:.3f} ms")
    ),
    "minutes": table(
        "cores,size,time", lambda c, s, r, t: (f"{c}", f"{s}", f"0:{t:09.6f}")
    ),
    "comments above, empty lines": "# host\n\n" + PLAIN.replace("\n", "\n\n"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_time_and_the_settings_are_recognized(tmp_path, spelling):
    path = written(tmp_path, SPELLINGS[spelling])
    assert holds_timings(path)
    (found,) = read_timings([path])
    dataset, _ = profiles_of(found)
    assert not inspect_profiles(dataset).errors
    assert list(dataset.coords) == ["cores", "size"]
    assert dict(dataset.sizes) == {"context": 6, "run": 2}
    np.testing.assert_allclose(
        np.sort(dataset["duration"].values, axis=None), np.sort([t for *_, t in ROWS]), rtol=1e-3
    )
    assert dataset["cores"].attrs["levels"] == [1, 2, 4]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(tmp_path, encoding):
    assert len(read_times(written(tmp_path, PLAIN, encoding=encoding)).seconds) == len(ROWS)


def test_runs_side_by_side_and_empty_cells(tmp_path):
    text = "threads,rep 1 [ms],rep 2 [ms],rep 3 [ms]\n1,5,6,\n2,3,n/a,4\n4,2,2,timeout\n"
    found = read_times(written(tmp_path, text))
    dataset, sentences = profiles_of(found)
    np.testing.assert_allclose(np.nanmean(dataset["duration"], axis=1), [5.5e-3, 3.5e-3, 2e-3])
    assert sentences == ["3 runs without a time or a setting were left out."]


def test_words_and_totals(tmp_path):
    text = "compiler,level,power_w,peak memory [MB],time_ms\n"
    text += "".join(f"{c},{o},50,{o + 1},{10 * o + i}\n" for i, c in enumerate(("gcc", "icx"), 1)
                    for o in (1, 2, 3))  # fmt: skip
    found = read_times(written(tmp_path, text))
    dataset, _ = profiles_of(found)
    assert dataset["compiler"].attrs["labels"] == ["gcc", "icx"]
    np.testing.assert_allclose(dataset["energy"], 50 * dataset["duration"])
    assert dataset["energy"].attrs["units"] == "J"
    np.testing.assert_allclose(dataset["peak_memory"].values[:, 0], [2e6, 3e6, 4e6] * 2)


def test_power_limits_are_settings(tmp_path):
    text = "power limit [W],time [s]\n100,3\n200,2\n"
    assert list(read_times(written(tmp_path, text)).settings) == ["power_limit"]


def test_what_was_taken_is_told_and_options_correct_it(tmp_path):
    text = "n,latency [ms],period [ms],mode\n" + "".join(
        f"{n},{5 * n},{p},a\n" for n in (1, 2) for p in (10, 20)
    )
    found = read_times(written(tmp_path, text))
    assert found.taken == (
        "time [ms]: 'latency [ms]'", "settings: n [1], period [ms], mode (words a)",
    )  # fmt: skip
    other = read_times(tmp_path / "t.csv", Roles(time="period", ignored=("mode",)))
    assert list(other.settings) == ["n", "latency"]
    seeded = written(tmp_path, "seed,size,time\n1,2,3\n2,2,4\n")
    assert list(read_times(seeded).settings) == ["size"]
    assert list(read_times(seeded, Roles(settings=("seed",))).settings) == ["seed", "size"]


def test_tables_of_one_task_are_put_together(tmp_path):
    files = [written(tmp_path, PLAIN, f"sort__clock={mhz}MHz.csv") for mhz in (600, 1200)]
    (found,) = read_timings(files)
    assert found.task == "sort"
    assert found.settings["clock"].units == "MHz"
    assert profiles_of(found)[0].sizes["context"] == 12


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n3,4\n", "none of a, b is named as a time; name the column of the time"),
        ("a,x time [s],y time [s]\n1,2,3\n", "x time [s], y time [s] may each be the time"),
        ("a,a,time\n1,2,3\n", "line 1: column 'a' is there twice"),
        ("1,2,3\n4,5,6\n", "line 1 is '1,2,3'; a header with the names of the columns is wanted"),
        ("a,time\n1,0\n", "line 2 has the time '0'; a time above 0 is wanted"),
        ("# c\na,time\n\n1,2\n2,fast\n", "line 5 has the time 'fast'; a number is wanted"),
        ("a,time\n1,2\n1,2,3\n", "line 3 has 3 cells, the header 2"),
        ("a,time\n1,2,3\n1,2\n", "line 2 has 3 cells, the header 2"),
        ("a,time\n", "a header and at least one row below it are wanted"),
        ("", "a header and at least one row"),
    ],
)
def test_doubts_are_one_sentence_with_the_place(tmp_path, text, sentence):
    with pytest.raises(ProfileError, match=r"^t\.csv: ") as caught:
        read_times(written(tmp_path, text))
    assert sentence in str(caught.value)


def test_a_name_without_a_column_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="there is no column 'x'; it has cores, size, seconds"):
        read_times(written(tmp_path, PLAIN), Roles(ignored=("x",)))


def test_files_of_two_forms_are_refused(tmp_path):
    bench = written(tmp_path, '{"results": [{"command": "x", "times": [1]}]}', "b.json")
    with pytest.raises(ProfileError, match=r"b\.json is of a benchmark tool, t\.csv is none"):
        read_timings([bench, written(tmp_path, PLAIN)])


@pytest.mark.parametrize(
    "text",
    [
        "0.010101,9000,,instructions,1,100.00,,\n0.020202,9001,,instructions,1,100.00,,\n",
        "name,value\na,b\n", "time\n1\n2\n", "", "{}\n",
        '{"interval" : 0.1, "event-runtime" : 5}\n{"interval" : 0.2, "event-runtime" : 5}\n',
    ],
)  # fmt: skip
def test_recordings_and_other_texts_are_no_tables_of_times(text):
    assert not is_table_of_times(text)


def test_many_rows_are_read_in_a_moment(tmp_path):
    from time import process_time

    n = 100_000
    rows = "".join(f"{1 + i % 8},{i % 50},{1 + i % 97 / 97:.4f}\n" for i in range(n))
    path = written(tmp_path, f"threads,size,seconds\n{rows}")
    before = process_time()
    assert profiles_of(read_times(path))[0]["duration"].notnull().sum() == n
    assert process_time() - before < 5  # .5 s


def test_the_times_of_samples_of_one_run_are_not_taken_for_runs(tmp_path):
    text = "time,ops\n" + "".join(f"{0.1 * i:.2f},{900 + i}\n" for i in range(1, 30))
    path = written(tmp_path, text)
    with pytest.raises(ProfileError, match=r"t\.csv: 'time' grows by equal steps"):
        read_times(path)
    assert len(read_times(path, Roles(time="time")).seconds) == 29


def test_the_csv_of_hyperfine_is_a_table_of_means(tmp_path):
    head = "command,mean,stddev,median,user,system,min,max,parameter_level\n"
    rows = "".join(f"gzip -{n},{n}.5,.1,{n}.4,1,1,1,9,{n}\n" for n in (1, 5, 9))
    found = read_times(written(tmp_path, head + rows))
    assert found.seconds.tolist() == [1.5, 5.5, 9.5]
    assert list(found.settings) == ["level"]
    minutes = written(tmp_path, "threads,min\n1,2\n2,1\n")
    assert read_times(minutes).seconds.tolist() == [120, 60]
