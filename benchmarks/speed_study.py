"""Speed of the bridge and of the generator, every figure beside its goal.

``python benchmarks/reproduce.py speed [--only bridge generate] [--quick] [--no-run]``, on an idle
machine.  ``--quick`` takes small sizes, for a trial, and writes into a folder of its own.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tables import RESULTS, ROOT, markdown, publish, store, stored
from targets import Figure, figures

PARTS = ("bridge", "generate")


def run(names: Sequence[str], *, quick: bool = False) -> None:
    """Run the scripts of some parts, and put all stored figures together."""
    folder = Path(tempfile.mkdtemp(prefix="msbgen-speed-")) if quick else RESULTS
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in names:
        script = ROOT / "benchmarks" / f"bench_{name}.py"
        command = [sys.executable, script, "--output", folder / f"{name}.json"]
        command += ["--quick"] if quick else []
        subprocess.run(list(map(str, command)), env=environment, check=True)
    if quick:
        print(folder)
        return
    found = figures({name: stored(name) for name in PARTS})
    rows: list[dict[str, Any]] = [{**asdict(f), "verdict": f.verdict} for f in found]
    for row in rows:
        row["value"] = None if row["value"] != row["value"] else row["value"]  # JSON has no NaN
    store(RESULTS / "speed.json", {"machine": machine(), "figures": rows})
    publish(tables())


def tables() -> dict[str, str]:
    """The figures beside their goals."""
    content = stored("speed")
    rows = []
    for row in content["figures"]:
        value = float("nan") if row["value"] is None else row["value"]
        rows.append(Figure(**{k: v for k, v in row.items() if k != "verdict"} | {"value": value}))
    text = markdown(["figure", "measured", "goal", ""], [figure.cells() for figure in rows])
    return {"speed": f"{content['machine']}\n\n{text}"}


def machine() -> str:
    """Name of the processor and number of its cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a trial")
    parser.add_argument("--no-run", action="store_true", help="take the results that are stored")
    options = parser.parse_args()
    run(() if options.no_run else options.only, quick=options.quick)
