"""``msbgen bound``: execution times that a new run exceeds with a given probability."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

    from msbgen.core.machine import OnProgress
    from msbgen.engine.bounds.model import CalibratedModel

# Contexts that are bounded at a time: a few seconds of work.
_AT_ONCE = 2**16


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "bound", run, "bound execution times")
    text = "measured profiles, or a calibrated model (--model), which needs no fit"
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc|MODEL.nc", help=text)
    text = "file of the bounds; without it, or with '-', CSV on stdout"
    shared.add_out(verb, "OUT.nc|CSV", text, type=shared.table_output)
    shared.add_contexts(verb, "the platform, if the file lists levels")
    shared.add_miscoverage(verb, "probability that a new run takes longer", 0.05)
    text = "also save the calibrated model here"
    verb.add_argument("--model", type=shared.output, metavar="MODEL.nc", help=text)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Calibrate a model on the measurements, or load a calibrated one, and write its bounds."""
    if options.out and options.out.suffix not in (".nc", ".csv"):
        raise UsageError(f"{options.out}: name a file that ends in .nc or .csv.")
    inputs = [options.measured, shared.file_of_contexts(options.contexts)]
    shared.check_files(inputs, [options.out, options.model], force=options.force)

    from msbgen.core.words import number_of
    from msbgen.data import store, tables
    from msbgen.data.profiles import Profiles
    from msbgen.engine.bounds import model as calibrate
    from msbgen.engine.generate import fit as fitting

    measured, calibrated = shared.read_measured(
        options.measured, calibrate.CalibratedModel.of_file, keep_all=options.keep_all
    )
    profiles = Profiles.of(measured)
    contexts = shared.contexts_like(profiles, options.contexts)
    if calibrated is None:
        calibrate.check_has_runs(profiles)
        with Progress("fitting") as step:
            model = fitting.fit_model(profiles, progress=step)
        with Progress("calibrating") as step, shared.errors_from(options.measured.name):
            calibrated = calibrate.calibrate(model, profiles, progress=step)
    with Progress("bounding") as step, shared.errors_from(options.measured.name):
        rate = calibrated.supported_rate(contexts, options.miscoverage)
        bounds = _bounds(calibrated, contexts, rate, step)
    if options.model:
        calibrated.for_choices().save(options.model, overwrite=options.force)
    if not options.out:
        shared.show_table(tables.bound_rows(bounds))
        return
    if options.out.suffix == ".nc":
        store.save_netcdf(bounds, options.out, overwrite=options.force)
    else:
        tables.write_table(tables.bound_rows(bounds), options.out, overwrite=options.force)
    made = number_of(len(contexts), "context")
    beyond = int(bounds["extrapolated"].values.sum())
    shared.show(
        f"{options.out}: {made}, {beyond} of them extrapolated; elsewhere a new run exceeds its "
        f"bound with probability {rate:g}"
    )


def _bounds(
    model: CalibratedModel, contexts: NDArray[np.float64], rate: float, progress: OnProgress
) -> xr.Dataset:
    """Bounds of the contexts (q, m), some of them at a time."""
    import numpy as np
    import xarray as xr

    parts = np.array_split(model.checked(contexts), -(-len(contexts) // _AT_ONCE))
    found = list[xr.Dataset]()
    for part in parts:
        found.append(model.bounds(part, rate))
        progress(len(found), len(parts))
    return xr.concat(found, "context") if len(found) > 1 else found[0]
