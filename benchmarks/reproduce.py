"""Run a study again: ``python benchmarks/reproduce.py STUDY [options]``.

Each study is a module, which measures, stores JSON in ``results/`` and writes the tables of its
page, ``benchmarks/STUDY.md``. ``reproduce.py STUDY --help`` lists its options. ``reproduce.py
tables`` writes all tables from the stored JSON, and measures nothing.
"""

import argparse
import os
import sys
from importlib import import_module

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes share the cores already

from tables import publish

STUDIES = {
    "fidelity": "profiles in contexts never measured, beside every peer",
    "faults": "faults in the measurements: found, and excluded from fits",
    "partial": "counters in different runs, runs cut short, samples lost",
    "bounds": "coverage and margin of bounds",
    "choose": "kept deadlines of the cheapest contexts, over fresh replays",
    "plans": "error against seconds of measuring, planned and not",
    "compare": "two versions of a program, beside other tests of the same runs",
    "speed": "the bridge and the generator, each figure beside its goal",
    "platform": "the virtual platform beside the shipped measurements",
    "measure": "a program measured on this machine, then generated",
    "loop": "the whole loop over four knobs of this machine, and what is killed",
    "pressure": "slowdowns of pairs of programs of this machine, from their pressures",
    "allocation": "allocating resources by generated and by measured profiles",
    "runtimes": "runtimes never measured, beside every peer",
    "beside": "programs that share cache and bandwidth, beside every rival",
    "machines": "which machine runs a program best, beside every peer",
    "queues": "queues of jobs placed on several machines",
    "kernels": "kernels and networks at clocks never measured",
    "durations": "durations at other settings, in tables that others measured",
    "choice": "decisions between clocks, power limits and batch sizes",
    "graphs": "time and energy of task graphs, beside every peer",
    "agents": "contexts chosen for task graphs by searches and by agents",
    "report": "the HTML report in a browser, and its cost",
    "batch": "many tasks on several workers, and what is killed meanwhile",
    "kills": "long verbs killed at random: nothing is left behind",
    "mutate": "damaged inputs: answered, or refused in one sentence",
}
# Modules of timings alone, whose tables stand on the pages of studies.
TIMINGS = ("partial", "realtime", "runtimes", "queues", "simulator")


def study(name: str) -> str:
    """The module of a study."""
    return name if name in ("kills", "mutate") else f"{name}_study"


def tables() -> dict[str, str]:
    """All tables of all pages by name, from the stored JSON."""
    found: dict[str, str] = {}
    modules = [study(name) for name in STUDIES if name != "measure"]
    for module in (*modules, "compare_real", *(f"bench_{name}" for name in TIMINGS)):
        found |= import_module(module).tables()
    return found


def main() -> object:
    listed = "\n".join(f"  {name:<11} {what}" for name, what in STUDIES.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{listed}", formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("study", choices=[*STUDIES, "tables"], metavar="STUDY")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.study == "tables":
        return publish(tables())
    sys.argv = [f"{sys.argv[0]} {arguments.study}", *arguments.options]
    return import_module(study(arguments.study)).main()


if __name__ == "__main__":
    sys.exit(main())
