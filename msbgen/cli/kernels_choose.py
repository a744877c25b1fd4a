"""``msbgen kernels choose``: the cheapest context within limits, or what to measure next."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from msbgen.core.choice import Limits, Offers
    from msbgen.systems.kernels.choice import Chooser
    from msbgen.systems.kernels.choice.costs import Costs


# Probability that a program exceeds its bounds.
_MISCOVERAGE = 0.05


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "choose the context with the least energy within limits, or what to measure next"
    verb = shared.new_verb(verbs, "choose", run, text)
    verb.add_argument(
        "table",
        type=Path,
        nargs="+",
        metavar="TABLE",
        help="programs measured over contexts: kernels (.nc), profiles with a counter in joules "
        "(.nc, one program each, measured or generated), the cache or T4 results (.json) of an "
        "auto-tuner, or a CSV with columns kind, runtime [s], "
        "power [W] and the --resources",
    )
    text = "columns of a CSV with the settings of the machine"
    verb.add_argument("--resources", type=shared.names, metavar="NAME,...", help=text)
    text = "map of the columns of a CSV with other headers, as for 'msbgen kernels import'"
    verb.add_argument("--columns", type=Path, metavar="MAP.toml", help=text)
    verb.add_argument(
        "--program",
        action="append",
        metavar="NAME",
        help="a program to choose for (all, one by one), repeated for several; the others inform "
        "the prediction of its unmeasured contexts",
    )
    verb.add_argument(
        "--objective",
        choices=("energy", "edp", "time", "front"),
        default="energy",
        help="minimised: energy, energy-delay product or time; or the Pareto front of time "
        "and energy (%(default)s)",
    )
    shared.add_limits(verb)
    verb.add_argument(
        "--relative-to",
        choices=("fastest", "highest"),
        default="fastest",
        help="context whose expected time a relative --latency multiplies: the fastest, or the one "
        "with the highest clock or limit of power (%(default)s)",
    )
    text = (
        f"probability that a program exceeds the bounds of a context ({_MISCOVERAGE}); 0.05 takes "
    )
    shared.add_miscoverage(verb, f"{text}19 families of other programs, 0.1 takes 9")
    verb.add_argument(
        "--work",
        default="",
        metavar="RESOURCE",
        help="resource that measures the work of a run, such as the batch size: energy is "
        "divided by it",
    )
    text = "bounds on runs of one program, from 'msbgen bound'"
    verb.add_argument("--bounds", type=Path, metavar="BOUNDS.nc", help=text)
    text = "print the next N contexts to measure, instead of choosing"
    verb.add_argument("--probes", type=shared.count, metavar="N", help=text)
    shared.add_table_out(verb, "OUT.csv", "the rows")
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Print the choice for each program, or the contexts to measure, as CSV."""
    from msbgen.core.words import number_of

    if options.bounds and options.probes:
        raise UsageError(
            "--bounds needs all contexts measured, --probes some unmeasured; use one of them."
        )
    if options.relative_to == "highest" and not isinstance(options.latency, shared.TimesFastest):
        raise UsageError("--relative-to needs a relative limit, such as --latency 1.1x.")
    if options.columns and options.resources:
        raise UsageError("--columns names the resources, too; drop --resources.")
    if options.bounds:
        shared.refuse_unused(options, "miscoverage", "is that of the --bounds")
    if options.miscoverage is None:
        options.miscoverage = _MISCOVERAGE
    inputs = [*options.table, options.bounds, options.columns]
    shared.check_files(inputs, [options.out], force=options.force)
    if all(path.suffix in (".nc", ".json") for path in options.table):
        shared.refuse_unused(options, "columns resources", "is for a CSV")

    costs, metered = _read(options)
    if options.program is None:
        numbers = list(range(len(costs.programs)))
    else:
        numbers = [costs.row(name) for name in dict.fromkeys(options.program)]
    rows = list(_rows(costs, numbers, options, metered=metered))
    shared.write_or_show_table(
        rows, options.out, number_of(len(rows) - 1, "row"), force=options.force
    )


def _rows(
    costs: Costs, numbers: list[int], options: argparse.Namespace, *, metered: bool
) -> Iterator[list[Any]]:
    from msbgen.systems.kernels.choice import Chooser
    from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel

    chooser = Chooser(
        costs, ConfigurationModel(), miscoverage=options.miscoverage, work=options.work
    )
    if options.probes:
        yield from _probe_rows(chooser, costs, numbers, options)
    else:
        yield from _choice_rows(chooser, costs, numbers, options, metered=metered)


def _limits(options: argparse.Namespace, costs: Costs, seconds: NDArray[np.float64]) -> Limits:
    """Limits of a program whose expected times [s] are known."""
    from msbgen.core.choice import Limits

    at = _reference(options, costs, seconds)
    return Limits(time=shared.seconds_of(options.latency, float(seconds[at])), power=options.power)


def _reference(options: argparse.Namespace, costs: Costs, seconds: NDArray[np.float64]) -> int:
    """Context whose expected time a relative limit multiplies."""
    from msbgen.systems.kernels.choice.chooser import highest_context

    fastest = int(seconds.argmin())
    if options.relative_to == "fastest":
        return fastest
    return highest_context(costs, [1.0] * len(seconds), fastest)


def _probe_rows(
    chooser: Chooser, costs: Costs, numbers: list[int], options: argparse.Namespace
) -> Iterator[list[Any]]:
    import numpy as np

    if options.objective == "front":
        raise UsageError("--probes needs the objective energy, edp or time.")
    open_ = [i for i in numbers if not costs.measured[i].all()]
    if len(open_) != 1:
        raise UsageError(
            f"--probes needs one program with unmeasured contexts, but {len(open_)} have some; "
            f"name one with --program."
        )
    known = costs.take(open_)
    view = chooser.posterior(known)
    limits = _limits(options, costs, np.exp(view.logs[0]))
    chosen = chooser.next_probes(known, options.probes, objective=options.objective, limits=limits)
    yield [*costs.resources, "runs", "seconds"]
    for context in chosen:
        seconds = math.exp(view.logs[0, context])
        yield [*(f"{x:.12g}" for x in costs.contexts[context]), 1, f"{seconds:.6g}"]


def _choice_rows(
    chooser: Chooser,
    costs: Costs,
    numbers: list[int],
    options: argparse.Namespace,
    *,
    metered: bool,
) -> Iterator[list[Any]]:
    from msbgen.core.choice import choose
    from msbgen.core.conformal import groups_needed, least_rate
    from msbgen.systems.kernels.choice.chooser import highest_context

    joules = ("energy [J]", "energy bound [J]", "saving") if metered else ()
    yield ["program", *costs.columns, "time [s]", "time bound [s]", *joules, "measured"]
    hints, few = [], []
    for number in numbers:
        known = costs.take([number])
        offers = _offers(chooser, known, options)
        limits = _limits(options, costs, offers.expected["time"])
        with _relative(options, costs, known, offers):
            if options.objective == "front":
                chosen = _front(offers, limits)
            else:
                chosen = [choose(offers, limits).context]
                hints += _hints(costs, number, offers, limits, chosen[0])
        few += _with_few_runs(costs, number, offers, chosen, options)
        for at in chosen:
            row = [costs.programs[number], *(f"{x:.12g}" for x in costs.contexts[at])]
            values = [offers.expected["time"], offers.bound["time"]]
            if metered:
                values += [offers.expected["energy"], offers.bound["energy"]]
            row += [f"{each[at]:.6g}" for each in values]
            if metered:
                energy = offers.expected["energy"]
                top = highest_context(costs, chooser.work, at)
                row.append(f"{1.0 - energy[at] / energy[top]:.4f}")
            yield [*row, int(known.measured[0, at])]
    for hint in hints:
        shared.print_message(hint)
    if few:
        n_runs, where = min(few)
        others = f", and {len(few) - 1} more" if len(few) > 1 else ""
        shared.print_message(
            f"warning: bounds are the largest of the measured runs, as these are fewer than "
            f"{groups_needed(options.miscoverage)}; a new run exceeds the largest of {n_runs} with "
            f"a probability of up to {least_rate(n_runs):g} ({where}{others}): measure more runs."
        )
    # measured everywhere, a program has values for bounds
    rate = max((chooser.supported_rate(costs.take([i])) for i in numbers), default=0.0)
    if options.bounds is None and rate > options.miscoverage:
        shared.print_message(
            f"warning: bounds are for a miscoverage of {rate:g}, not of {options.miscoverage:g}: "
            f"the families of other programs support no smaller one; measure more programs."
        )


@contextmanager
def _relative(
    options: argparse.Namespace, costs: Costs, known: Costs, offers: Offers
) -> Iterator[None]:
    """Add to errors of the body what a limit as 1.1x is of, and what to measure."""
    from msbgen.core.choice import InfeasibleError

    try:
        yield
    except InfeasibleError as error:
        if not isinstance(options.latency, shared.TimesFastest):
            raise
        at = _reference(options, costs, offers.expected["time"])
        of = "shortest expected time" if options.relative_to == "fastest" else "expected time"
        remedy = "" if known.measured[0, at] else f"; measure {known.programs[0]} there"
        raise InfeasibleError(
            f"{error} The limit of time is {options.latency.factor:g} times the {of}, "
            f"{offers.expected['time'][at]:.4g} s at {costs.describe(at)}{remedy}."
        ) from None


def _with_few_runs(
    costs: Costs,
    number: int,
    offers: Offers,
    chosen: list[int],
    options: argparse.Namespace,
) -> Iterator[tuple[int, str]]:
    """Chosen contexts bounded by the largest of too few runs: their number, and the words."""
    from msbgen.core.conformal import groups_needed

    for at in chosen:
        seconds, _ = costs.runs_of(number, at)
        few = len(seconds) < groups_needed(options.miscoverage)
        if few and options.bounds is None and offers.bound["time"][at] <= seconds.max():
            yield len(seconds), f"{costs.programs[number]} at {costs.describe(at)}"


def _hints(costs: Costs, number: int, offers: Offers, limits: Limits, at: int) -> list[str]:
    """The limit of time, and the context that would cost less and that only its bounds refuse."""
    if limits.time == math.inf:
        return []
    text = f"{costs.programs[number]}: the limit is {limits.time:.4g} s"
    best = offers.cheapest_expected(limits, float(offers.cost[at]))
    if best is None:
        return [f"{text}."]
    remedy = "measure more runs there" if costs.measured[number, best] else "measure it"
    expected = offers.expected
    return [
        f"{text}; {costs.describe(best)} is expected to take {expected['time'][best]:.4g} s and "
        f"{expected['energy'][best]:.4g} J, but its time bound is {offers.bound['time'][best]:.4g} "
        f"s; {remedy} and choose again, or raise --miscoverage."
    ]


def _offers(chooser: Chooser, known: Costs, options: argparse.Namespace) -> Offers:
    from msbgen.systems.kernels.choice.chooser import bounded_offers

    objective = "energy" if options.objective == "front" else options.objective
    if options.bounds is None:  # a rate that the families do not support is named below the table
        return chooser.offers(known, objective=objective, supported=True)
    from msbgen.data import store

    bounds = store.load_netcdf(options.bounds)
    return bounded_offers(
        known, bounds, chooser.work, objective=objective, source=options.bounds.name
    )


def _front(offers: Offers, limits: Limits) -> list[int]:
    """Pareto-optimal contexts of time and cost within the limits, the fastest first."""
    from msbgen.core.choice import pareto_front

    rows = offers.within(limits)
    rows.sort()
    return rows[pareto_front(offers.expected["time"][rows], offers.cost[rows])].tolist()


def _read(options: argparse.Namespace) -> tuple[Costs, bool]:
    """Costs of the tables, and whether they have a power; a choice by time needs none."""
    from msbgen.data import store
    from msbgen.data.check import validate_profiles
    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels import readers as kernels_readers
    from msbgen.systems.kernels import tuning
    from msbgen.systems.kernels.choice import costs

    found = []
    for path in options.table:
        if path.suffix == ".nc":
            dataset = store.load_netcdf(path)
            if str(dataset.attrs.get("schema")) == kernels.KERNELS_SCHEMA:
                found.append(kernels.validate(dataset, source=path.name))
                continue
            whole = validate_profiles(dataset, source=path.name)
            with shared.errors_from(path.name):
                found.append(kernels_readers.from_profiles([whole]))
        elif path.suffix == ".json":
            found.append(tuning.read_tuning(path))
        elif options.columns is not None:
            known = kernels_readers.read_column_map(options.columns)
            found.append(kernels_readers.read_table(path, known))
        elif options.resources is None:
            raise UsageError(
                f"{path}: is a table; name its columns of resources with --resources, or map other "
                f"headers with --columns."
            )
        else:
            known = kernels_readers.ColumnMap(tuple(options.resources))
            found.append(kernels_readers.read_table(path, known))
    with shared.errors_from(", ".join(path.name for path in options.table)):
        dataset = kernels.join(found)
        by_time = options.objective == "time" and options.power == math.inf
        watts = 1.0 if by_time else None
        return costs.costs_of(dataset, assumed_power=watts), kernels.has_power(dataset)
