"""Import of many recordings: seconds and peak memory of the whole command.

    python benchmarks/bench_import.py [-o FILE.json] [--runs 1000] [--seconds 10]

Random recordings of perf in each form, 3 events every 10 ms over 200 contexts, are imported by
``msbgen import``. Totals of the file are compared with the written ones.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from tables import store
from timing import run_python

EVENTS = ("instructions", "cache-misses", "task-clock")
CONTEXTS = 200


def recording(rng, seconds, form):
    """Text of a recording and its totals: bins of 10.1 ms, a few of them late."""
    steps = 0.0101 + np.where(rng.random(int(seconds / 0.01)) < 0.01, rng.random(), 0.0) * 0.04
    times = np.cumsum(steps)
    times = times[times < seconds]
    counts = rng.integers(10**5, 10**8, (len(times), 3))
    nanoseconds = rng.integers(9_900_000, 10_100_000, len(times))
    counts[:, 2] = nanoseconds
    lines = ["# started on Sun Nov 22 12:00:00 2026\n\n"]
    for t, (a, b, _), ns in zip(times, counts, nanoseconds):
        for event, value, unit in (
            (EVENTS[0], a, ""), (EVENTS[1], b, ""), (EVENTS[2], ns / 1e6, "msec"),
        ):  # fmt: skip
            if form == "json":
                lines.append(
                    f'{{"interval" : {t:.9f}, "counter-value" : "{float(value):.6f}", "unit" : '
                    f'"{unit}", "event" : "{event}", "event-runtime" : {ns}, "pcnt-running" : '
                    f'100.00, "metric-value" : 0.000000, "metric-unit" : "(null)"}}\n'
                )
            else:
                text = f"{value:.2f}" if unit else str(value)
                lines.append(f"{t:15.9f};{text};{unit};{event};{ns};100.00;;\n")
    return "".join(lines), counts.sum(axis=0)


def measure(form, runs, seconds):
    """Write recordings, import them, compare the totals."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        rows, totals = ["file,cpu_quota [%],duration [s]"], np.zeros(3)
        for run in range(runs):
            text, total = recording(rng, seconds, form)
            (Path(folder) / f"{run}.txt").write_text(text)
            rows.append(f"{run}.txt,{run % CONTEXTS + 1},{seconds}")
            totals += total
        (Path(folder) / "runs.csv").write_text("\n".join(rows) + "\n")
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        out = Path(folder) / "out.nc"
        done = run_python(["-m", "msbgen", "import", "--manifest", f"{folder}/runs.csv", "-o", out])
        import msbgen

        profiles = msbgen.read_profiles(out)
        found = [float(profiles[n].sum(dtype=float)) for n in
                 ("instructions", "cache_misses", "task_clock")]  # fmt: skip
        error = float(np.max(np.abs(np.array(found) / totals - 1)))
    return {
        "runs": runs, "seconds_a_run": seconds, "bytes": size, "seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds, "peak_bytes": done.peak_bytes, "error_of_totals": error,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    found = {form: measure(form, options.runs, options.seconds) for form in ("csv", "json")}
    for form, row in found.items():
        what = f"{row['runs']} runs × 3 events × {row['seconds_a_run']:g} s at 10 ms, {form}"
        time = f"{row['seconds']:.1f} s ({row['cpu_seconds']:.1f} s of a core)"
        memory = f"{row['peak_bytes'] / 1e9:.2f} GB (asked: 20 s, 1 GB)"
        error = f"totals off by {row['error_of_totals']:.1e}"
        print(f"import of {what}: {time}, {memory}; {error}", file=sys.stderr)
    if options.output:
        store(options.output, {"import": found})
    else:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
