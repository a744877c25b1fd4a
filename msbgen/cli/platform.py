"""``msbgen platform``: real programs on a virtual platform, for users without special hardware."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb, its two parts and their options."""
    text = "replay recorded programs on a virtual platform, or record one"
    parts = shared.new_group(verbs, "platform", text)
    replay = shared.new_verb(parts, "replay", run_replay, "replay a trace in any contexts")
    replay.add_argument("trace", type=Path, metavar="TRACE.nc")
    shared.add_out(replay, "OUT.nc", "the profile file to write", required=True)
    shared.add_contexts(replay, "the virtual platform")
    replay.add_argument(
        "--runs",
        type=shared.count,
        metavar="R",
        help="runs a context (what the CSV's column 'runs' says, else 10)",
    )
    replay.add_argument(
        "--interval",
        type=shared.duration,
        default=0.01,
        metavar="TIME",
        help="sampling interval, as 10ms (%(default)s s)",
    )
    shared.add_seed(replay)
    shared.add_force(replay)
    record = shared.new_verb(
        parts, "record", run_record, "record a program's trace under qemu-user"
    )
    shared.add_out(record, "TRACE.nc", "the trace to write", required=True)
    record.add_argument(
        "--stdin", type=Path, metavar="FILE", help="what the program reads (nothing)"
    )
    record.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments"
    )
    shared.add_seed(record)
    shared.add_force(record)


def run_replay(options: argparse.Namespace) -> None:
    """Replay a trace in the contexts wanted and write their profiles."""
    contexts_file = shared.contexts_file(options.contexts)
    shared.check_files([options.trace, contexts_file], [options.out], force=options.force)

    import numpy as np

    from msbgen import platform
    from msbgen.data import store, tables
    from msbgen.platform.config import exact_contexts

    trace = platform.read_trace(options.trace)
    config = platform.PlatformConfig()
    contexts = shared.contexts(options.contexts, config.levels)
    with shared.about(options.contexts):
        contexts = exact_contexts(contexts, config)
    runs = np.full(len(contexts), options.runs or 10)
    if not options.runs and contexts_file and contexts_file.suffix != ".nc":
        _, runs = tables.read_planned_contexts(contexts_file, platform.RESOURCES, 10)
    with Progress("replaying") as step:
        profiles = platform.replay(
            trace, contexts, runs, options.interval, options.seed, progress=step
        )
    store.write_profiles(profiles, options.out, overwrite=options.force)
    each = f"{runs[0]} runs each" if np.all(runs == runs[0]) else f"{runs.sum()} runs"
    shared.show(f"{options.out}: {len(contexts)} contexts, {each}")


def run_record(options: argparse.Namespace) -> None:
    """Record a program and write its trace."""
    command = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise UsageError("no command to record; put it behind '--'.")
    shared.check_files([options.stdin], [options.out], force=options.force)

    from msbgen import platform

    trace = platform.record_trace(
        command,
        options.out,
        stdin=options.stdin or os.devnull,
        rng=options.seed,
        overwrite=options.force,
    )
    total = float(trace["instructions"].sum())
    shared.show(f"{options.out}: {total:.4g} instructions in {trace.sizes['interval']} intervals")
