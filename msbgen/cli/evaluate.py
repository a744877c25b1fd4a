"""``msbgen evaluate``: score methods on contexts they were not fitted to."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

_NAMES = ("scores.nc", "scores.json")


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "evaluate", run, "score methods on left-out contexts")
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc")
    shared.add_held_out(verb)
    text = "methods to score: default/KIND, paper/KIND, or a baseline (all that fit)"
    verb.add_argument("--methods", metavar="NAME,...", help=text)
    verb.add_argument(
        "--fastdtw", action="store_true", help="also report the paper's approximate DTW (slow)"
    )
    shared.add_out(verb, "DIR", "folder for scores.nc (each context) and scores.json (means)")
    shared.add_seed(verb)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Score methods and print the table of their means."""
    generated = shared.generated_files(options)
    inputs = [options.measured, options.truth, *options.generated]
    if options.out:
        shared.check_folder(inputs, options.out, _NAMES, force=options.force)
    else:
        shared.check_files(inputs)

    import numpy as np

    from msbgen.answers.evaluate import scores as evaluate
    from msbgen.data import store
    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate.fit import paper_problem
    from msbgen.output.report import table

    names = evaluate.METHODS
    if options.methods is not None:
        names = tuple(name.strip() for name in options.methods.split(","))
    unknown = [name for name in names if name not in evaluate.METHODS]
    if unknown:
        raise UsageError(f"no method '{unknown[0]}'; choose from {', '.join(evaluate.METHODS)}.")
    if len(set(names)) < len(names):
        raise UsageError(f"--methods names '{max(names, key=names.count)}' twice; name it once.")
    measured = shared.read_runs(options.measured, keep_all=options.keep_all)
    if options.methods is None and (problem := paper_problem(Profiles.of(measured))):
        names = tuple(name for name in names if not name.startswith("paper/"))
        shared.print_message(f"methods paper/… are not scored: {problem}")
    warping = ("exact", "fastdtw") if options.fastdtw else ("exact",)
    with Progress("scoring methods") as step:
        if options.truth:
            truth = shared.read_runs(options.truth, keep_all=options.keep_all)
            every = evaluate.methods()
            chosen = {name: every[name] for name in names}
            chosen |= {
                name: evaluate.lookup_method(store.read_profiles(path), name)
                for name, path in generated.items()
            }
            with shared.errors_from(options.truth.name):
                scores = evaluate.score_methods(
                    measured, truth, chosen, warping=warping, progress=step
                )
        else:
            shared.check_leave_out(options, measured)
            rng = np.random.default_rng(options.seed)
            scores = evaluate.leave_contexts_out(
                measured, options.leave_out, names, rng=rng, warping=warping, progress=step
            )
    summary = evaluate.summarise(scores)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        store.save_netcdf(scores, options.out / _NAMES[0], overwrite=options.force)
        shared.write_json(summary, options.out / _NAMES[1], force=options.force)
    shared.show(table.score_table(summary))
