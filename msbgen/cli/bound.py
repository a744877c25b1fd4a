"""``msbgen bound``: execution times that new runs seldom exceed."""

from __future__ import annotations

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "bound", run, "bound the execution time in any contexts")
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc")
    text = "write the bounds here; without it, or with '-', they go to stdout as CSV"
    shared.add_out(verb, "OUT.nc|CSV", text, type=shared.table_output)
    shared.add_contexts(verb, "the platform, where the file lists levels")
    verb.add_argument(
        "--miscoverage",
        type=shared.rate,
        default=0.05,
        metavar="A",
        help="share of runs in a new context that may take longer (%(default)s)",
    )
    verb.add_argument(
        "--model",
        type=shared.output,
        metavar="MODEL.nc",
        help="also save the calibrated model here",
    )
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Calibrate a model on what was measured and write its bounds."""
    if options.out and options.out.suffix not in (".nc", ".csv"):
        raise UsageError(f"{options.out}: name a file that ends in .nc or .csv.")
    inputs = [options.measured, shared.contexts_file(options.contexts)]
    shared.check_files(inputs, [options.out, options.model], force=options.force)

    import numpy as np

    from msbgen.bounds import model as calibrate
    from msbgen.core import conformal
    from msbgen.data import schema, store, tables
    from msbgen.generate import model as generate

    measured = store.read_profiles(options.measured)
    contexts = shared.contexts(options.contexts, shared.levels_of(measured))
    # bounds leave out runs that were cut
    ended = np.isfinite(schema.duration_array(measured)) & schema.complete_array(measured)
    known = int(ended.any(axis=1).sum())
    unit = "contexts" if known == len(ended) else "contexts with a run that was not cut"
    with shared.about(options.measured.name):
        conformal.check_rate(options.miscoverage, known, int(ended.sum()), unit)
    with Progress("fitting") as step:
        model = generate.fit_profiles(measured, progress=step)
    with shared.about(options.contexts):
        contexts = model.checked(contexts)
    with Progress("calibrating") as step, shared.about(options.measured.name):
        calibrated = calibrate.calibrate_model(model, measured, progress=step)
        bounds = calibrated.bounds(contexts, options.miscoverage)
    if options.model:
        calibrated.save(options.model, overwrite=options.force)
    if not options.out:
        shared.show_table(tables.bound_rows(bounds))
        return
    if options.out.suffix == ".nc":
        store.save_netcdf(bounds, options.out, overwrite=options.force)
    else:
        tables.write_table(tables.bound_rows(bounds), options.out, overwrite=options.force)
    shared.show(
        f"{options.out}: {len(contexts)} contexts, {int(bounds['extrapolated'].sum())} of them "
        f"extrapolated; a new run exceeds its bound with probability {options.miscoverage:g}"
    )
