"""Where the recordings are that the tests of ``measure`` read."""

from pathlib import Path

FIXTURES = Path(__file__).parent / "sources" / "measure" / "fixtures"
# Small ones of every form, to be spoilt.
RECORDINGS = [
    "perf-6.1.187/A.csv",
    "perf-6.1.187/A.jsonl",
    "perf-6.1.187/de.csv",
    "perf-6.1.187/de.jsonl",
    "perf-6.1.187/percore.csv",
    "perf-6.1.187/perthread.csv",
    "perf-6.1.187/summary.csv",
    "perf-6.1.187/uprobe.csv",
    "perf-6.1.192/cgroup.csv",
    "perf-6.1.192/event-with-commas.csv",
    "perf-6.1.192/interval-count.csv",
    "perf-6.1.192/multiplexed.csv",
    "perf-6.1.192/space.csv",
    "constructed/hybrid-task.csv",
]
