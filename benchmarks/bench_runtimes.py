"""Time and memory of predicted runtimes: ``python benchmarks/bench_runtimes.py [--only fit …]``.

Each figure stands beside its goal. Times need an idle machine.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tables import RESULTS, markdown, parser, publish, renew, stored
from timing import run_python, seconds_of

import msbgen
from msbgen.systems.runtimes.dataset import run_table
from msbgen.systems.runtimes.predictor import RuntimePredictor

# A fresh process fits and calibrates with nine tenths of the data, and saves.
FIT = """
import sys, time
import numpy as np
import msbgen
runs = msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc"))
known = np.random.default_rng(0).random(runs.sizes["observation"]) < 0.9
started = time.perf_counter()
predictor = msbgen.runtimes.fit(runs, subset=known)
print(time.perf_counter() - started)
predictor.save(sys.argv[1])
"""

# 5,000 workloads, 2,000 platforms, a million runs. Memory does not depend on the number of steps of
# the towers or of conjugate gradients, so that few are taken.
LARGE = """
import numpy as np
from msbgen.systems.runtimes import kriging
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.towers import TowerSettings
kriging._MOST_STEPS = 2
rng = np.random.default_rng(0)
n, shape = 1_000_000, (5000, 2000)
beside = np.where(rng.random(n) < 0.5, rng.integers(shape[0], size=n), -1)
runs = np.column_stack([rng.integers(s, size=n) for s in shape] + [beside])
log = rng.normal(size=shape[0])[runs[:, 0]] + rng.normal(size=shape[1])[runs[:, 1]]
runtime = np.exp(log + 0.1 * (beside >= 0) + 0.05 * rng.normal(size=n))
features = rng.normal(size=(shape[0], 100)), rng.normal(size=(shape[1], 40))
model = RuntimePredictor(*features, towers=TowerSettings(steps=4))
model.fit(runs[:-100_000], runtime[:-100_000])
model.calibrate(runs[-100_000:], runtime[-100_000:])
print(model.predict_bound(runs[:100_000], 0.05).mean())
"""

ROUNDS = 7


def fit(work: Path) -> list[tuple[str, float, float, str]]:
    run = run_python(["-c", FIT, work / "model.nc"])
    return [
        ("fit and calibrate, 90 % known", float(run.output), 45.0, "s"),
        ("most memory of that process", run.peak_bytes / 2**20, 300.0, "MiB"),
    ]


def queries(work: Path) -> list[tuple[str, float, float, str]]:
    predictor = RuntimePredictor.load(work / "model.nc")
    table = run_table(msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc")))
    many = table[np.random.default_rng(0).integers(len(table), size=2_000_000)]
    one, rows = table[-1:], []
    predictor.predict(many[:1000])
    for name, call in (
        ("predictions", predictor.predict),
        ("bounds", lambda runs: predictor.predict_bound(runs, 0.05)),
    ):
        seconds = min(seconds_of(lambda call=call: call(many)) for _ in range(3))
        rows.append((f"two million {name}", seconds, 1.0, "s"))
        call(one)
        each = [seconds_of(lambda call=call: call(one)) for _ in range(2000)]
        rows.append((f"one of the {name}, median", 1e6 * float(np.median(each)), 100.0, "µs"))
    return rows


def command(work: Path) -> list[tuple[str, float, float, str]]:
    table = run_table(msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc")))
    workloads, platforms = RuntimePredictor.load(work / "model.nc").names_ or ((), ())
    lines = ["workload,platform,beside"]
    for i, j, k in table[np.random.default_rng(1).integers(len(table), size=1000)]:
        lines.append(f"{workloads[i]},{platforms[j]},{workloads[k] if k >= 0 else ''}")
    (work / "wanted.csv").write_text("\n".join(lines) + "\n")
    command_line = ["-m", "msbgen", "runtime", "predict", work / "model.nc"]
    command_line += ["--wanted", work / "wanted.csv", "-o", work / "out.csv", "--force"]
    predict = min(run_python(command_line).seconds for _ in range(ROUNDS))
    help_seconds = min(
        run_python(["-m", "msbgen", "runtime", "--help"]).seconds for _ in range(ROUNDS)
    )
    return [
        ("msbgen runtime predict, 1,000 rows, cold", predict, 1.5, "s"),
        ("msbgen runtime --help", help_seconds, 0.3, "s"),
    ]


def large(work: Path) -> list[tuple[str, float, float, str]]:
    run = run_python(["-c", LARGE])
    return [("most memory, 5,000 × 2,000, a million runs", run.peak_bytes / 2**30, 2.0, "GiB")]


PARTS: dict[str, Callable[[Path], list[tuple[str, float, float, str]]]] = {
    "fit": fit,
    "queries": queries,
    "command": command,
    "large": large,
}


def main() -> None:
    options = parser(__doc__, PARTS, output="JSON file to renew, not that of the page").parse_args()
    keys = ("what", "value", "at_most", "unit")

    def figures(name: str, work: Path) -> list[dict[str, Any]]:
        return [dict(zip(keys, figure)) for figure in PARTS[name](work)]

    with tempfile.TemporaryDirectory(prefix="msbgen-predict-") as folder:
        work = Path(folder)
        if {"queries", "command"} & set(options.only) and "fit" not in options.only:
            fit(work)
        path = options.output or RESULTS / "predict.json"
        renew(path, {name: partial(figures, name, work) for name in options.only})
    if not options.output:
        publish(tables())


def tables() -> dict[str, str]:
    content = stored("predict")
    rows = [
        [f["what"], f"{f['value']:.3g} {f['unit']}", f"≤ {f['at_most']:g} {f['unit']}"]
        for name in PARTS
        for f in content.get(name, [])
    ]
    return {"predict": markdown(["figure", "measured", "goal"], rows)}


if __name__ == "__main__":
    sys.exit(main())
