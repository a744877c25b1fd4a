"""``msbgen platform``: replay recorded programs on the virtual platform."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray


# Runs of each context.
_RUNS = 10


def add(verbs: Verbs) -> None:
    """Add the verb, its two parts and their options."""
    from msbgen.data.sharing import CHANNELS

    text = "replay recorded programs on a virtual platform, or record one"
    parts = shared.new_group(verbs, "platform", text)
    replay = shared.new_verb(parts, "replay", run_replay, "replay a trace in any contexts")
    replay.add_argument("trace", type=Path, metavar="TRACE.nc")
    shared.add_out(replay, "OUT.nc", "the profile file to write", required=True)
    shared.add_contexts(replay, "the virtual platform")
    text = f"runs of each context (column 'runs' of the CSV, else {_RUNS})"
    replay.add_argument("--runs", type=shared.count, metavar="R", help=text)
    text = "sampling interval, such as 10ms (%(default)s s)"
    replay.add_argument("--interval", type=shared.duration, default=0.01, metavar="TIME", help=text)
    text = "earlier replay of the same trace: its runs are added"
    replay.add_argument("--with", dest="onto", type=Path, metavar="FIRST.nc", help=text)
    text = "TRACE.nc and these are streams of programs that share the cache and the bandwidth"
    replay.add_argument("--beside", type=Path, nargs="+", metavar="STREAM.nc", help=text)
    text = f"with --beside: how they share the bandwidth ({CHANNELS[0]})"
    replay.add_argument("--channel", choices=CHANNELS, help=text)
    text = "with --beside: programs start again until the slowest has ended"
    replay.add_argument("--loop", action="store_true", help=text)
    shared.add_seed(replay)
    shared.add_force(replay)
    record = shared.new_verb(
        parts, "record", run_record, "record a program's trace under qemu-user"
    )
    shared.add_out(record, "TRACE.nc", "the trace to write", required=True)
    text = "write every request, too, for 'platform replay --beside'"
    record.add_argument("--stream", type=shared.output, metavar="STREAM.nc", help=text)
    record.add_argument("--stdin", type=Path, metavar="FILE", help="input of the program (none)")
    record.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments"
    )
    shared.add_seed(record)
    shared.add_force(record)


def run_replay(options: argparse.Namespace) -> None:
    """Replay a trace in contexts and write the profiles."""
    contexts_file = shared.file_of_contexts(options.contexts)
    inputs = [options.trace, contexts_file, options.onto, *(options.beside or [])]
    shared.check_files(inputs, [options.out], force=options.force)
    if options.beside:
        _replay_beside(options)
        return
    shared.refuse_unused(options, "loop channel", "is for --beside, streams of other programs")

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.sources import platform
    from msbgen.sources.platform.config import exact_contexts

    trace = platform.read_trace(options.trace)
    config = platform.PlatformConfig()
    contexts = shared.contexts(options.contexts, config.levels)
    with shared.errors_of_contexts(options.contexts):
        contexts = exact_contexts(contexts, config)
    runs, replaced = _runs_of(options, contexts)
    again = contexts[replaced]
    with Progress("replaying") as step:
        profiles = platform.replay_trace(
            trace, contexts, runs, options.interval, options.seed, progress=step
        )
    n, each = len(contexts), _runs_text(runs)
    if options.onto:
        profiles = _joined(store.read_profiles(options.onto), profiles, again, options)
        n, each = profiles.sizes["context"], number_of(int(profiles["duration"].count()), "run")
    store.write_profiles(profiles, options.out, overwrite=options.force)
    shared.show(f"{options.out}: {number_of(n, 'context')}, {each}")


def _replay_beside(options: argparse.Namespace) -> None:
    """Replay streams that share each context, and write the profiles of the first program."""
    if options.onto:
        raise UsageError("--with is for programs alone; leave it out, or leave out --beside.")

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.data.build import join_profiles
    from msbgen.data.sharing import CHANNELS, shared_by_all
    from msbgen.sources import platform
    from msbgen.sources.platform.config import exact_contexts

    streams = [platform.read_stream(path) for path in (options.trace, *options.beside)]
    config = platform.PlatformConfig()
    contexts = shared.contexts(options.contexts, config.levels)
    with shared.errors_of_contexts(options.contexts):
        contexts = exact_contexts(contexts, config)
    runs, _ = _runs_of(options, contexts)
    blocks = []
    with Progress("replaying") as step:
        for row, (ways, bandwidth, clock) in enumerate(contexts.tolist()):
            sharing = shared_by_all(
                len(streams), ways=ways, bandwidth=bandwidth, frequency=clock,
                channel=options.channel or CHANNELS[0],
                afterwards="loop" if options.loop else "idle",
            )  # fmt: skip
            found = platform.replay_beside(
                streams, sharing, int(runs[row]), options.interval, options.seed
            )
            blocks.append(found[0].drop_vars("held_ways"))
            step(row + 1, len(contexts))
    profiles = join_profiles(blocks)
    if not profiles["prefetched_misses"].sum():  # no file holds a counter that counted nothing
        profiles = profiles.drop_vars("prefetched_misses")
    store.write_profiles(profiles, options.out, overwrite=options.force)
    shared.show(f"{options.out}: {number_of(len(contexts), 'context')}, {_runs_text(runs)}")


def _runs_of(
    options: argparse.Namespace, contexts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Runs of each context, by --runs or else the table of contexts; and which replace old runs."""
    import numpy as np

    from msbgen.data import tables
    from msbgen.sources import platform

    runs, again = np.full(len(contexts), options.runs or _RUNS), np.zeros(len(contexts), dtype=bool)
    file = shared.file_of_contexts(options.contexts)
    if file and file.suffix != ".nc":
        planned = tables.read_plan(file, platform.RESOURCES, _RUNS)
        runs, again = runs if options.runs else planned.runs, planned.again
    return runs, again


def _runs_text(runs: NDArray[np.int64]) -> str:
    """The runs of all contexts in words."""
    from msbgen.core.words import number_of

    if (runs == runs[0]).all():
        return f"{number_of(int(runs[0]), 'run')} each"
    return number_of(int(runs.sum()), "run")


def _joined(
    first: xr.Dataset, new: xr.Dataset, again: NDArray[np.float64], options: argparse.Namespace
) -> xr.Dataset:
    """Merge earlier and new runs; contexts `again` keep the new runs only."""
    from msbgen.data import merge, schema
    from msbgen.sources import platform

    source = str(options.onto)
    tasks = [str(part.attrs.get("task", "")) for part in (first, new)]
    if tasks[0] != tasks[1]:  # only the names show that both are one program
        shared.print_message(
            f"warning: {source} has the task '{tasks[0]}', the trace has '{tasks[1]}'."
        )
    resources = {name: new[name].attrs for name in schema.resource_names(new)}
    merge.check_batch(first, resources, options.interval, source)
    first = merge.without_replaced(first, new, platform.RESOURCES, again)
    whole = merge.join_batches(first, new, source)
    if merge.share_a_run(first, new):
        raise UsageError(
            f"{source}: already has runs of seed {options.seed} in these contexts; choose another "
            f"--seed."
        )
    seeds = [*str(first.attrs.get("seed", "")).split(", "), str(options.seed)]
    return whole.assign_attrs(seed=", ".join(dict.fromkeys(filter(None, seeds))))


def run_record(options: argparse.Namespace) -> None:
    """Record a program and write its trace."""
    command = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise UsageError("no command to record; write it after '--'.")
    shared.check_files([options.stdin], [options.out, options.stream], force=options.force)

    from msbgen.sources import platform

    trace = platform.record_trace(
        command,
        options.out,
        stdin=options.stdin or os.devnull,
        rng=options.seed,
        stream=options.stream,
        overwrite=options.force,
    )
    total = float(trace["instructions"].sum())
    shared.show(f"{options.out}: {total:.4g} instructions in {trace.sizes['interval']} intervals")
