"""Damage recordings and manifests at random: each gives a valid dataset, or one clear sentence.

    python benchmarks/mutate_recordings.py --count 10000 --seed 0
    python benchmarks/mutate_recordings.py --seed 0 --only 1234    # that one again, with its text

Recordings of every form in the tests are damaged in cells, lines and bytes, and imported. A failure
is a traceback, a hang, a message that is not one sentence with the file's name, an invalid dataset,
or one with other totals than its recording. The script then exits with 1.
"""

import argparse
import logging
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mutate import ANSWERED, FAILED, REFUSED, one_sentence
from mutate_files import spoil_bytes

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.data.columns import ColumnMap
from msbgen.measure.imports import import_recordings
from msbgen.measure.manifest import Entry, Manifest, read_manifest
from msbgen.measure.readers.formats import RecordingReader

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "measure" / "fixtures"
SECONDS = 20  # that one trial may take; most take some milliseconds
# A time in the wrong unit makes more intervals than this; a day at 10 ms.
LONG = 1e5

ODD_CELLS = [
    "", " ", "0", "-0", "-1", "1e9", "1e400", "nan", "inf", "-inf", "x", "1_0", "٣", "0x10", "1,5",
    "1.5.2", "<not counted>", "<not supported>", "<not", "summary", '"', "'", "{", "}", "\\",
    "\x00", "\x1b[31m", "🐧", "9" * 30, "9" * 5000, "18446744073709551599", "4294967295", "CPU0",
    "S0-D0", "/", "a/b", "-", "N/A", "#", "100.00", "0.00", "100,00", "msec", "time",
]  # fmt: skip
LINES = [
    "", "#", "# started on Sun Nov 22 12:00:00 2026", "perf: interrupted", "1", "Time,Core", "[]",
    "{}", "null", "     0.020000000", "     0.020000000;", "42 % done", ";" * 8, "\ufeff",
    "     summary;1;;a;1;100.00;;", "Events disabled", "[[run]]", "[columns]", 'task = "x"',
]  # fmt: skip


@dataclass(frozen=True)
class Original:
    """A recording, or a manifest of recordings, and its reader."""

    path: Path
    reader: RecordingReader
    manifest: bool = False


OWN = ColumnMap(
    columns={
        "time [ms]": "t [ms]",
        "place": "core",
        "instructions": "INST",
        "misses": "misses so far",
        "bytes [1e6]": "MB/s",
    },
    totals=("misses",),
    rates=("bytes",),
)


def originals(folder: Path) -> list[Original]:
    """Every readable recording, those of other tools several times, and manifests."""
    found = []
    for path in sorted(FIXTURES.glob("*/*")):
        if path.parent.name == "tables":
            continue
        original = Original(path, RecordingReader())
        verdict, _ = judge(original, path)
        if verdict == ANSWERED:
            found.append(original)
    tables = FIXTURES / "tables"
    core = ("Core1 (Socket 0)",)
    for name, reader in {
        "likwid-events.txt": RecordingReader("likwid"),
        "pqos.csv": RecordingReader("pqos", step=0.1),
        "pqos-task.csv": RecordingReader("pqos"),
        "pcm.csv": RecordingReader("pcm", places=core),
        "pcm-semicolon.csv": RecordingReader("pcm", places=core),
        "own.csv": RecordingReader("table", columns=OWN),
    }.items():
        found += 3 * [Original(tables / name, reader)]
    for name in ("q020_r0.csv", "q100_r0.csv"):
        (folder / name).write_bytes((FIXTURES / "sweep-quota" / name).read_bytes())
    (folder / "runs.csv").write_text(
        "file,run,cpu_quota [%],duration [ms],cpu_quota_achieved [%],cpu_quota_mechanism,load\n"
        "q020_r0.csv,0,20,3000.2,20.1,cgroup v1,0.3\nq100_r0.csv,0,100,648.05,98,cgroup v1,0.1\n"
    )
    (folder / "runs.toml").write_text(
        'task = "sqlite"\n[resources.cpu_quota]\nunits = "%"\nlevels = [20, 100]\n'
        '[[run]]\nfile = "q020_r0.csv"\ncpu_quota = 20\nduration = 3.0002\n'
        '[[run]]\nfile = "q100_r0.csv"\ncpu_quota = 100\ncpu_quota_achieved = 98.0\n'
    )
    for name in ("runs.csv", "runs.toml"):
        found += 4 * [Original(folder / name, RecordingReader(), manifest=True)]
    return found


def spoil(original: Original, rng: np.random.Generator) -> tuple[bytes, str]:
    """A damaged copy of a file, and a description of the damage."""
    data, done = original.path.read_bytes(), []
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        if not data:
            break
        if rng.random() < 0.3:
            data, how = spoil_bytes(data, rng)
        else:
            text, how = spoil_text(data.decode("utf-8", "surrogateescape"), rng)
            data = text.encode("utf-8", "surrogateescape")
        done.append(how)
    return data, ", ".join(done)


def spoil_text(text: str, rng: np.random.Generator) -> tuple[str, str]:
    """Change cells, lines, separators, the decimal point or the encoding."""
    lines = text.split("\n")
    row = int(rng.integers(len(lines)))
    how = str(rng.choice(["cell", "cell", "cell", "number", "drop", "double", "swap", "line", "cut",
                          "separator", "decimal", "columns", "ends", "head", "place"]))  # fmt: skip
    separator = next((s for s in (";", ",", "|", "\t", " ") if s in lines[row].strip()), " ")
    cells = lines[row].split(separator)
    column = int(rng.integers(len(cells)))
    if how == "cell":
        cells[column] = str(rng.choice(ODD_CELLS))
        lines[row] = separator.join(cells)
    elif how == "number":
        digits = [i for i, c in enumerate(lines[row]) if c.isdigit()]
        if digits:
            at = digits[rng.integers(len(digits))]
            new = str(rng.choice([*"0123456789", "", ".", "-", "00"]))
            lines[row] = lines[row][:at] + new + lines[row][at + 1 :]
    elif how == "drop":
        del lines[row : row + int(rng.integers(1, 6))]
    elif how == "double":
        lines[row:row] = lines[row : row + int(rng.integers(1, 6))]
    elif how == "swap":
        other = int(rng.integers(len(lines)))
        lines[row], lines[other] = lines[other], lines[row]
    elif how == "line":
        lines.insert(row, str(rng.choice(LINES)))
    elif how == "cut":
        lines[row] = lines[row][: int(rng.integers(len(lines[row]) + 1))]
    elif how == "separator":
        lines = [line.replace(separator, str(rng.choice([";", ",", "::", "\t"]))) for line in lines]
    elif how == "decimal":
        lines = [line.replace(".", ",") for line in lines]
    elif how == "columns":
        lines = [separator.join(line.split(separator)[:-1]) for line in lines]
    elif how == "ends":
        return "\r\n".join(lines), "ends"
    elif how == "head":
        lines = lines[: row + 1]
    else:
        lines[row] = lines[row].replace(separator, f"{separator}CPU0{separator}", 1)
    return "\n".join(lines), f"{how} in line {row + 1}"


def judge(original: Original, path: Path) -> tuple[str, str]:
    """Import a file: verdict and reason."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        if original.manifest:
            manifest = read_manifest(path)
        else:
            manifest = Manifest((Entry(path, {"x": 1.0}),), {"x": {"units": "1"}})
        recordings = [original.reader.read(entry.path) for entry in manifest.entries]
        if any(r.times[-1] > LONG * r.interval for r in recordings):
            return ANSWERED, "a recording of more than a day"
        dataset, warnings_found = import_recordings(manifest, original.reader)
        errors = inspect_profiles(dataset, source=path.name).errors
        if errors and original.manifest:  # contexts of its own making, which writing refuses
            return (REFUSED if all(map(one_sentence, errors)) else FAILED), "\n".join(errors)
        why = "; ".join(errors) or _lost(dataset, manifest, recordings)
        odd = [text for text in warnings_found if not one_sentence(text)]
        return (FAILED if why or odd else ANSWERED), why or "; ".join(odd)
    except (ProfileError, ArgumentError) as error:
        warnings_found = str(error)
        good = one_sentence(warnings_found.replace("'.", ".")) and "\n" not in warnings_found
        return (REFUSED if good else FAILED), warnings_found
    except BaseException:
        return FAILED, traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"it took more than {SECONDS} s")


def _lost(dataset: Any, manifest: Manifest, recordings: list[Any]) -> str:
    """A sentence on totals that differ from the recordings, or nothing."""
    events = {
        dataset[n].attrs["event"]: n for n in dataset.data_vars if "event" in dataset[n].attrs
    }
    for event, name in events.items():
        wanted = sum(r.totals[r.events.index(event)] for r in recordings)
        found = float(dataset[name].sum(dtype=float))
        if abs(found - wanted) > 1e-5 * wanted:
            return f"'{name}' adds up to {found:.9g}, its recordings to {wanted:.9g}"
    return ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, nargs="*", help="these trials, and their texts")
    chosen = options.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("error")
    found, started = Counter[str](), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        those = originals(folder)
        for index in chosen.only or range(chosen.count):
            rng = np.random.default_rng([chosen.seed, index])
            original = those[rng.integers(len(those))]
            data, how = spoil(original, rng)
            path = folder / f"spoilt{original.path.suffix}"
            path.write_bytes(data)
            verdict, why = judge(original, path)
            found[verdict] += 1
            if verdict == FAILED or chosen.only:
                print(f"{verdict}: --only {index}: {original.path.name}; {how}\n{why}", flush=True)
            if chosen.only:
                print(data.decode("utf-8", "replace")[:3000])
    counts = ", ".join(f"{found[verdict]} {verdict}" for verdict in (ANSWERED, REFUSED, FAILED))
    print(f"{sum(found.values())} trials in {time.perf_counter() - started:.0f} s: {counts}")
    return 1 if found[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
