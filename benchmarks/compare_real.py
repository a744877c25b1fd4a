"""A real program under CPU quotas, in two settings and in one: what repeated comparisons answer.

    python benchmarks/compare_real.py --work FOLDER [--only setting same] [--runs 6]

It needs perf, control groups with CPU quotas, and root. ``setting`` compares ``gzip -6`` with
``gzip -7`` five times, ``same`` compares ``gzip -6`` with itself ten times. Every time is a new
sweep, whose variants are interleaved. A sweep that is in the folder is not measured again.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tables import RESULTS, markdown, parser, publish, renew, stored

import msbgen
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.spec import read_spec

PARTS = {"setting": (5, "-7"), "same": (10, "-6")}  # sweeps, and the second variant's option
ALARM = 1.02  # the interval's lower end above which `--fail-above 2%` fails
SIZE = 1_600_000  # of the file [B], so that a run takes about .1 s of a core
SPEC = """
task = "gzip"
runs = {runs}
warmups = 2
timeout = "20s"
seed = {seed}
[resources.cpu_share]
by = "quota"
levels = [40, 70, 100]
[variants.old]
command = ["gzip", "-6", "-c", "{file}"]
[variants.new]
command = ["gzip", "{option}", "-c", "{file}"]
"""


def text(size: int) -> bytes:
    """Words of a vocabulary whose frequencies fall with their rank, as in a language."""
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    words = [rng.choice(letters, rng.integers(2, 10)).tobytes() for _ in range(4000)]
    ranks = np.minimum(rng.zipf(1.3, size // 4), len(words)) - 1
    return b" ".join(words[rank] for rank in ranks)[:size]


def compared(folder: Path, option: str, seed: int, runs: int) -> dict[str, object]:
    """A sweep of both variants, measured if it is missing, and its comparison."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"out-{name}.nc" for name in ("old", "new")]
    if not all(path.exists() for path in paths):
        (folder / "text").write_bytes(text(SIZE))
        spec = folder / "spec.toml"
        spec.write_text(SPEC.format(seed=seed, runs=runs, option=option, file=folder / "text"))
        measure(read_spec(spec), folder / "out.nc", overwrite=True)
    old, new = map(msbgen.read_profiles, paths)
    found = msbgen.compare_profiles(old, new)
    load = np.concatenate([part["load"].values.ravel() for part in (old, new)])
    print(folder.name, found.verdict, found.time, *found.notes, sep="\n  ")
    return {
        "verdict": found.verdict,
        **asdict(found.time),
        "detectable": found.detectable,
        "alarm": found.time.low > ALARM,
        "drift_noted": any("drift" in note for note in found.notes),
        "runs": sum(found.runs),
        "seconds": float(sum(part["duration"].sum() for part in (old, new))),
        "load": float(np.nanmedian(load)),
    }


def sweeps(work: Path, part: str, runs: int) -> list[dict[str, object]]:
    count, option = PARTS[part]
    return [compared(work / f"{part}-{seed}", option, seed, runs) for seed in range(count)]


def tables() -> dict[str, str]:
    """The table of the page's section."""
    names = {"setting": "`gzip -7` with `gzip -6`", "same": "`gzip -6` with itself"}
    rows = []
    for part, found in stored("compare-real").items():
        ratios = [row["value"] for row in found]
        verdicts = sorted({row["verdict"] for row in found})
        answers = ", ".join(f"{v}: {sum(r['verdict'] == v for r in found)}" for v in verdicts)
        rows.append(
            [
                names[part], str(len(found)),
                f"{np.median([row['runs'] for row in found]):.0f}", answers,
                f"{min(ratios):.3f} to {max(ratios):.3f}",
                f"{100 * np.median([row['detectable'] for row in found]):.1f} %",
                str(sum(row["alarm"] for row in found)),
                f"{np.median([row['load'] for row in found]):.1f}",
            ]
        )  # fmt: skip
    header = [
        "compared",
        "sweeps",
        "runs",
        "verdicts",
        "ratio",
        "detectable",
        "alarms at 2 %",
        "load",
    ]
    return {"compare real": markdown(header, rows)}


def main() -> None:
    reader = parser(str(__doc__), PARTS, ("work",), work="folder for what is measured")
    reader.add_argument("--runs", type=int, default=6, help="of either version in each quota")
    options = reader.parse_args()
    os.nice(5)
    work = options.work.resolve()
    parts = {part: (lambda part=part: sweeps(work, part, options.runs)) for part in options.only}
    print(json.dumps(renew(RESULTS / "compare-real.json", parts))[:200])
    publish(tables())


if __name__ == "__main__":
    main()
