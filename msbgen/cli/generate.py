"""``msbgen generate``: the profiles of any contexts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import xarray as xr


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "generate", run, "generate the profiles of any contexts")
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc")
    shared.add_out(verb, "OUT.nc", "the profile file to write", required=True)
    shared.add_contexts(verb, "the platform, where the file lists levels")
    verb.add_argument(
        "--kind", choices=("max_likelihood", "mean", "sample"), default="max_likelihood"
    )
    verb.add_argument(
        "--samples",
        type=shared.count,
        default=10,
        metavar="N",
        help="random profiles a context, for --kind sample (%(default)s)",
    )
    verb.add_argument(
        "--interval",
        type=shared.duration,
        metavar="TIME",
        help="output interval, as 10ms or 0.5s (as measured)",
    )
    verb.add_argument("--preset", choices=("default", "paper"), default="default")
    verb.add_argument(
        "--epsilon",
        type=shared.number,
        metavar="E",
        help="weight of the entropy, squared units of the scaled coordinates",
    )
    verb.add_argument(
        "--power-of",
        type=Path,
        nargs="+",
        default=[],
        metavar="OTHER.nc",
        help="other programs that were measured on this platform: their power at the contexts "
        "wanted says what energy, a counter in joules, adds up to",
    )
    verb.add_argument(
        "--model", type=shared.output, metavar="MODEL.nc", help="also save the fitted model here"
    )
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Fit a model to what was measured and write what it generates."""
    inputs = [options.measured, shared.contexts_file(options.contexts), *options.power_of]
    shared.check_files(inputs, [options.out, options.model], force=options.force)

    import dataclasses

    import numpy as np

    from msbgen.data import partial, store
    from msbgen.generate import model as generate
    from msbgen.generate.size import expected_size

    measured = store.read_profiles(options.measured)
    mended = _mender(measured, options.measured.name, options.power_of)
    contexts = shared.contexts(options.contexts, shared.levels_of(measured))
    size = expected_size(
        measured,
        len(contexts),
        kind=options.kind,
        times=options.interval,
        n_samples=options.samples,
    )
    shared.check_room(options.out, size)
    settings = generate.PRESETS[options.preset]
    if options.epsilon:
        settings = dataclasses.replace(settings, epsilon=options.epsilon)
    fit_rng, sample_rng = np.random.default_rng(options.seed).spawn(2)
    with Progress("fitting") as step:
        model = generate.fit_profiles(measured, settings, rng=fit_rng, progress=step)
    with shared.about(options.contexts):
        contexts = model.checked(contexts)
    with Progress("solving the bridge") as step:
        model.prepare(options.kind, progress=step)
    with Progress("generating") as step:
        blocks = model.stream(
            contexts,
            kind=options.kind,
            times=options.interval,
            n_samples=options.samples,
            rng=sample_rng,
            progress=step,
        )
        beyond = 0

        def labelled() -> Iterator[xr.Dataset]:
            nonlocal beyond
            for block in blocks:
                beyond += int(block["extrapolated"].sum())
                yield mended(block).assign_attrs(preset=options.preset, seed=options.seed)

        store.write_blocks(labelled(), options.out, overwrite=options.force)
    if options.model:
        model.save(options.model, overwrite=options.force)
    shared.show(f"{options.out}: {len(contexts)} contexts, {beyond} of them extrapolated")
    for said in partial.cut_throughout(measured):
        shared.say(f"cut: {said}")


def _mender(
    measured: xr.Dataset, source: str, paths: list[Path]
) -> Callable[[xr.Dataset], xr.Dataset]:
    """What mends the energy of generated profiles by other programs; nothing where none is named.

    That it can be done is seen before the work.
    """
    if not paths:
        return lambda block: block

    from msbgen.data import store
    from msbgen.data.energy import energy_counter
    from msbgen.kernels import energy

    with shared.about(source):
        energy_counter(measured)
    with shared.about(", ".join(path.name for path in paths)):
        mender = energy.EnergyMender(measured, [store.read_profiles(path) for path in paths])
    return mender.mend
