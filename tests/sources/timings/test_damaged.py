"""Damaged results and tables: an answer or a ProfileError, never another exception."""

import json
from pathlib import Path

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.sources.measure.readers.power_log import read_power_log
from msbgen.sources.timings.matrices import read_matrix
from msbgen.sources.timings.read import holds_timings, read_timings
from msbgen.sources.timings.timings import profiles_of

FIXTURES = Path(__file__).parent / "fixtures"
TABLES = {
    "times.csv": "threads,size [MB],time [ms]\n1,10,5.5\n1,10,5.6\n2,10,3.1\n2,20,6.0\n4,10,1.9\n",
    "wide.csv": "host;n;run1;run2\na;1;1,5;1,6\nb;2;2,5;\nb;4;1.234,5;3\n",
    "matrix.csv": "app,old,new\nsort,10,5\nscan,,3\nfft,8,n/a\n",
    "gpu.csv": "timestamp, power.draw [W]\n2026/01/01 10:00:00, 5 W\n2026/01/01 10:00:01, 6 W\n",
}
RESULTS = sorted(p for p in FIXTURES.rglob("*") if p.suffix in (".json", ".jsonl", ".txt"))
ODD = [None, True, "", "x", -1, 0, 1e400, 2**70, [], {}, [[]], "1e999", "\ud800", {"a": [1]}, "nan"]
BYTES = [
    b"",
    b"\x00",
    b'"',
    b",",
    b"\n",
    b"{",
    b"]",
    b"-",
    b"1e999",
    b"\xff",
    b"\xef\xbb\xbf",
    b";",
]


def places(document, path=()):
    """Paths of all values of a JSON document."""
    yield path
    if isinstance(document, dict):
        pairs = [*document.items()]
    else:
        pairs = [*enumerate(document)] if isinstance(document, list) else []
    for key, value in pairs:
        yield from places(value, (*path, key))


def damaged(text, rng, *, is_json):
    """A text with one thing no longer as it was."""
    if is_json and rng.random() < 0.6:
        document = json.loads(text)
        every = [path for path in places(document) if path]
        *path, last = every[rng.integers(len(every))]
        at = document
        for key in path:
            at = at[key]
        if rng.random() < 0.3:
            del at[last]
        else:
            at[last] = ODD[rng.integers(len(ODD))]
        return json.dumps(document).encode()
    data = text.encode()
    begin = int(rng.integers(len(data)))
    kind = rng.integers(4)
    if kind == 0:
        return data[:begin]
    if kind == 1:
        return text.encode("utf-16")[: 2 * begin + int(rng.integers(2))]
    more = BYTES[rng.integers(len(BYTES))]
    return data[:begin] + more + data[begin + int(rng.integers(0, 9)) :]


def answer(path):
    """Read a file in every way that it could be meant."""
    holds_timings(path)
    for one in read_timings([path]):
        dataset, sentences = profiles_of(one)
        assert all(isinstance(sentence, str) for sentence in sentences)
        assert not inspect_profiles(dataset).errors


@pytest.mark.parametrize("seed", range(300))
def test_damaged_files_are_answered_or_refused(tmp_path, seed):
    rng = np.random.default_rng(seed)
    if rng.random() < 0.6:
        source = RESULTS[rng.integers(len(RESULTS))]
        text, name = source.read_text(), source.name
    else:
        name = sorted(TABLES)[rng.integers(len(TABLES))]
        text = TABLES[name]
    path = tmp_path / name
    path.write_bytes(damaged(text, rng, is_json=name.endswith(".json")))
    for read in (answer, *((read_matrix, read_power_log) if name.endswith(".csv") else ())):
        try:
            read(path)
        except ProfileError as error:
            assert str(error).count("\n") == len(error.problems) - 1  # noqa: PT017
            assert str(error).startswith(f"{name}") or name in str(error)  # noqa: PT017
