"""``msbgen generate``: profiles of any contexts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import xarray as xr


# Random profiles of each context.
_SAMPLES = 10


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "generate", run, "generate profiles of any contexts")
    text = "measured profiles, or a saved model (--model), which needs no fit"
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc|MODEL.nc", help=text)
    shared.add_out(verb, "OUT.nc", "the profile file to write", required=True)
    shared.add_contexts(verb, "the platform, if the file lists levels")
    verb.add_argument(
        "--kind", choices=("max_likelihood", "mean", "sample"), default="max_likelihood"
    )
    text = f"random profiles of each context, for --kind sample ({_SAMPLES})"
    verb.add_argument("--samples", type=shared.count, metavar="N", help=text)
    text = "samples without the error of the contexts' predicted durations"
    verb.add_argument("--as-known", action="store_true", help=text)
    text = "output interval, such as 10ms or 0.5s (as measured)"
    verb.add_argument("--interval", type=shared.duration, metavar="TIME", help=text)
    verb.add_argument("--preset", choices=("default", "paper"), help="of the fit (default)")
    text = "weight of the entropy [squared units of the scaled coordinates]"
    verb.add_argument("--epsilon", type=shared.number, metavar="E", help=text)
    verb.add_argument(
        "--power-of",
        type=Path,
        nargs="+",
        default=[],
        metavar="OTHER.nc",
        help="other programs measured on this platform: their power in the generated contexts "
        "corrects the energy (a counter in joules)",
    )
    verb.add_argument(
        "--model", type=shared.output, metavar="MODEL.nc", help="also save the fitted model here"
    )
    shared.add_seed(verb)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Fit a model to the measurements, or load a saved one, and write generated profiles."""
    if options.kind != "sample":
        shared.refuse_unused(options, "samples", "is for --kind sample")
        shared.refuse_unused(options, "as_known", "is for --kind sample")
    if options.kind == "mean" and options.preset != "paper" and not options.model:
        shared.refuse_unused(options, "epsilon", "does not change means of the default preset")
    samples = options.samples or _SAMPLES
    inputs = [options.measured, shared.file_of_contexts(options.contexts), *options.power_of]
    shared.check_files(inputs, [options.out, options.model], force=options.force)

    import dataclasses

    import numpy as np

    from msbgen.core.words import number_of
    from msbgen.data import partial, store
    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate import ahead
    from msbgen.engine.generate import fit as fitting
    from msbgen.engine.generate.model import ProfileModel
    from msbgen.engine.generate.size import expected_size

    measured, model = shared.read_measured(
        options.measured, ProfileModel.of_file, keep_all=options.keep_all
    )
    if model and (options.preset or options.epsilon or options.power_of):
        raise UsageError(
            f"{options.measured} is a fitted model; --preset, --epsilon and --power-of need the "
            f"measured profiles."
        )
    corrected = _energy_correction(measured, options.measured.name, options.power_of)
    profiles = Profiles.of(measured)
    contexts = shared.contexts_like(profiles, options.contexts)
    size = expected_size(
        profiles,
        len(contexts),
        kind=options.kind,
        times=options.interval,
        n_samples=samples,
    )
    shared.check_disk_space(options.out, size)
    fit_rng, sample_rng = np.random.default_rng(options.seed).spawn(2)
    cut = [] if model else partial.cut_throughout(profiles)
    if model is None:
        settings = fitting.PRESETS[options.preset or "default"]
        if options.epsilon:
            settings = dataclasses.replace(settings, epsilon=options.epsilon)
        compiled = ahead.paths_compiled(profiles, settings, options.kind, shared.print_message)
        with Progress("fitting") as step, compiled:
            model = fitting.fit_model(profiles, settings, rng=fit_rng, progress=step)
    preset = next(
        name for name, own in fitting.PRESETS.items()
        if isinstance(model.distribution.settings, type(own))
    )  # fmt: skip
    with Progress("solving the bridge") as step:
        model.prepare(options.kind, progress=step)
    with Progress("generating") as step:
        blocks = model.stream(
            contexts, kind=options.kind, times=options.interval, n_samples=samples,
            as_known=options.as_known, rng=sample_rng, progress=step,
        )  # fmt: skip
        extrapolated = uncertain = 0

        def labelled() -> Iterator[xr.Dataset]:
            nonlocal extrapolated, uncertain
            for block in blocks:
                extrapolated += int(block["extrapolated"].values.sum())
                uncertain += int(block["cliff"].values.sum())
                yield corrected(block).assign_attrs(preset=preset, seed=options.seed)

        store.write_blocks(labelled(), options.out, overwrite=options.force)
    if options.model:
        model.save(options.model, overwrite=options.force)
    made = number_of(len(contexts), "context")
    shared.show(f"{options.out}: {made}, {extrapolated} of them extrapolated")
    for sentence in model.describe_cliffs() if uncertain else ():
        shared.print_message(f"cliff: {sentence}; contexts between are marked")
    for sentence in cut:
        shared.print_message(f"cut: {sentence}")


def _energy_correction(
    measured: xr.Dataset, source: str, paths: list[Path]
) -> Callable[[xr.Dataset], xr.Dataset]:
    """Return the correction of generated energy by other programs; identity without programs.

    Unsuitable programs raise here, before the work.
    """
    if not paths:
        return lambda block: block

    from msbgen.data import store
    from msbgen.data.energy import energy_counter
    from msbgen.systems.kernels import energy

    with shared.errors_from(source):
        energy_counter(measured)
    with shared.errors_from(", ".join(path.name for path in paths)):
        corrector = energy.EnergyCorrector(measured, [store.read_profiles(path) for path in paths])
    return corrector.correct
