"""Accuracy, from the profiles that ship: writes the JSON that the README's tables come from.

``python benchmarks/reproduce.py tasks``: every method on the six tasks.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import msbgen
from msbgen.evaluate import METHODS

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "profiles"
RESULTS = ROOT / "benchmarks" / "results"
TASKS = ("bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd")
COLUMNS = {
    "fastdtw": "nDTW (fastdtw)",
    "ndtw": "nDTW (exact)",
    "fastdtw_scaled": "scaled (fastdtw)",
    "ndtw_scaled": "scaled (exact)",
    "duration_error": "duration error",
    "energy_distance": "energy distance",
}


def score_task(task: str) -> dict:
    train = msbgen.read_profiles(PROFILES / f"{task}.nc")
    truth = msbgen.read_profiles(PROFILES / f"{task}-truth.nc")
    return msbgen.summarise(msbgen.score_methods(train, truth, warping=("exact", "fastdtw")))


def tasks() -> None:
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(TASKS, pool.map(score_task, TASKS)))
    mean = {
        method: {
            metric: {
                "score": float(np.mean([r["methods"][method][metric] for r in results.values()])),
                "improvement": float(
                    np.mean([r["methods"][method]["improvement"][metric] for r in results.values()])
                ),
            }
            for metric in COLUMNS
        }
        for method in METHODS
    }
    RESULTS.mkdir(exist_ok=True)
    content = {"mean_over_tasks": mean, "tasks": results}
    (RESULTS / "tasks.json").write_text(json.dumps(content, indent=1) + "\n")
    _put_into_readme("tasks", _table(mean))


def _table(mean: dict) -> str:
    lines = ["| method | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for method, row in mean.items():
        cells = []
        for metric in COLUMNS:
            score, gain = row[metric]["score"], row[metric]["improvement"]
            text = f"{100 * score:.1f} %" if metric == "duration_error" else f"{score:.3f}"
            cells.append(f"{text} ({100 * gain:+.0f} %)")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _put_into_readme(name: str, text: str) -> None:
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(f"<!-- results: {name} -->\n")
    _, _, after = rest.partition("<!-- end -->")
    readme.write_text(f"{before}<!-- results: {name} -->\n{text}\n<!-- end -->{after}")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("tasks",))
    {"tasks": tasks}[parser.parse_args().part]()


if __name__ == "__main__":
    sys.exit(main())
