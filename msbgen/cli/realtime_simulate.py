"""``msbgen realtime simulate``: simulate a task set and count missed deadlines"""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "simulate", run, "simulate a task set under global EDF")
    verb.add_argument("file", type=Path, metavar="SET.toml")
    text = "folder of phase tables, PROFILE.nc for each profile of the set"
    verb.add_argument("--tables", type=shared.folder, required=True, metavar="DIR", help=text)
    text = "folder of profiles of all contexts, PROFILE.nc; jobs replay their runs"
    verb.add_argument("--truth", type=shared.folder, required=True, metavar="DIR", help=text)
    shared.add_out(verb, "RESULT.nc", "jobs, misses and energy", required=True)
    shared.add_allocator(verb)
    verb.add_argument(
        "--slack",
        type=shared.slack,
        metavar="S|reference|simulated",
        help="loss of rate that lower clocks may cost, in [0, 1); or what the test on reference "
        "utilisations, or simulation on --profiles, allows (the highest clock)",
    )
    text = "for --slack simulated: folder of the profiles behind the tables"
    verb.add_argument("--profiles", type=shared.folder, metavar="DIR", help=text)
    text = "jobs are released until this time, such as 60s or 1min (%(default)s s)"
    verb.add_argument("--horizon", type=shared.duration, default=60.0, metavar="TIME", help=text)
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Simulate and write the outcome of every job."""
    shared.check_files([options.file], [options.out], force=options.force)
    if (options.slack == "simulated") != (options.profiles is not None):
        raise UsageError("--slack simulated and --profiles DIR go together; give both or neither.")

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.systems.phases import phases
    from msbgen.systems.realtime import clocks, tasksets
    from msbgen.systems.realtime.allocate import Allocator
    from msbgen.systems.realtime.simulate import simulate_task_set
    from msbgen.systems.realtime.truth import Truth

    chosen = tasksets.read_task_set(options.file)
    names = sorted({task.profile for task in chosen.tasks})

    def paths(folder: Path) -> dict[str, Path]:
        return {n: shared.profile_file(folder, n, options.file.name) for n in names}

    def runs(folder: Path) -> Truth:
        parts = []
        with shared.errors_in(folder), Progress("reading") as step:
            for done, (name, path) in enumerate(paths(folder).items(), start=1):
                parts.append(Truth.of({name: store.read_profiles(path)}))
                step(done, len(names))
            return Truth.join(parts)

    folders = filter(None, (options.tables, options.truth, options.profiles))
    inputs = [options.file, *(path for folder in folders for path in paths(folder).values())]
    shared.check_files(inputs, [options.out], force=options.force)
    with shared.errors_in(options.tables):
        tables = {name: phases.read_phases(path) for name, path in paths(options.tables).items()}
    truth = runs(options.truth)

    def allocator(slack: float) -> Allocator:
        return Allocator(
            tables, chosen.capacity, chosen.cores, method=options.allocator,
            objective=options.objective, minima=chosen.minima, slack=slack,
        )  # fmt: skip

    with shared.errors_from(options.file.name):
        slack = options.slack
        if slack == "reference":
            slack = clocks.reference_slack(chosen)
        elif slack == "simulated":
            profiled = runs(options.profiles)
            slack = clocks.simulated_slack(
                chosen, allocator, profiled, horizon=options.horizon, rng=options.seed + 1
            )
        result = simulate_task_set(
            chosen, tables, truth, allocator=options.allocator, objective=options.objective,
            slack=slack, horizon=options.horizon, rng=options.seed,
        )  # fmt: skip
    store.save_netcdf(result, options.out, overwrite=options.force)
    ratio = result["response_time"] / (result["deadline"] - result["release"])
    clock = "" if slack is None else f", slack {abs(slack):.3g}"
    shared.show(
        f"{options.out}: {number_of(result.sizes['job'], 'job')}, "
        f"{int(result['late'].sum())} late, longest "
        f"response {float(ratio.max()):.3f} of its deadline, energy that of "
        f"{float(result['energy'].sum()):.4g} s at the highest clock{clock}"
    )
    if result.attrs["load"] > 1:
        shared.print_message(
            f"warning: the cores are overloaded: the last job ends after "
            f"{result.attrs['load']:.2f} times the time until the last deadline; lower the "
            f"utilisation of the set, or choose another --allocator."
        )
