"""``msbgen graph choose``: the cheapest context for a graph within limits."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from msbgen.cli import graph as graph_options
from msbgen.cli import options as shared
from msbgen.cli.options import Verbs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from msbgen.systems.graphs.forecast import Forecast
    from msbgen.systems.graphs.predictor.predictor import GraphPredictor

# Of bounds, where none is given and the model supports it.
_MISCOVERAGE = 0.05


def add(verbs: Verbs) -> None:
    """Add the part and its options."""
    verb = shared.new_verb(
        verbs, "choose", run, "choose the cheapest context for a graph within limits"
    )
    graph_options.add_predicted(verb)
    verb.add_argument(
        "--objective",
        choices=("energy", "edp", "time", "cost"),
        default="energy",
        help="minimised: energy, energy-delay product, time; or cost: time plus half the energy, "
        "each relative to the largest context, plus heat (%(default)s)",
    )
    shared.add_limits(verb)
    text, none = "highest temperature in °C", math.inf
    verb.add_argument("--cap", type=shared.degrees, default=none, metavar="T", help=text)
    text = (
        "probability that a graph of a new family is outside its interval (0.05, or the least that "
        "the model supports; a model without intervals is taken by its predictions)"
    )
    shared.add_miscoverage(verb, text)
    shared.add_table_out(verb, "OUT.csv", "the row")
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Choose, and print the choice with its predictions."""
    graph_options.check_inputs(options, options.model)

    from msbgen.core.choice import Limits, choose
    from msbgen.systems.graphs.agents import search, worlds
    from msbgen.systems.graphs.predictor.forecaster import GraphForecaster
    from msbgen.systems.graphs.predictor.predictor import GraphPredictor

    predictor = GraphPredictor.load(options.model)
    device = graph_options.read_device(options.device)
    if options.miscoverage is None:
        rate, warning = _supported(predictor)
        forecaster = GraphForecaster(predictor, device, rate)
    else:
        rate, warning = options.miscoverage, ""
        with shared.errors_from("--miscoverage"):
            forecaster = GraphForecaster(predictor, device, rate)
    graph, table = graph_options.read_graph_in_contexts(options, device)
    start = device.ambient if options.temperature is None else options.temperature
    with shared.errors_from(options.device):
        forecast = forecaster.forecast(graph, table, start)
    objective = options.objective
    if objective == "cost":
        reference = search.reference_of(forecaster, device, graph)
        bounds = forecast.time_bound, forecast.energy_bound, forecast.temperature_bound
        costs = worlds.Cost().of(*bounds, reference)
        objective = costs
    latency = shared.seconds_of(options.latency, float(forecast.time.min()))
    limits = Limits(time=latency, power=options.power, temperature=options.cap)

    def describe(context: int) -> str:
        return device.describe(table[context])

    offers = search.offers_of(forecast, objective=objective, describe=describe)
    with shared.errors_from(str(options.graph.name)):
        found = choose(offers, limits)
    chosen = table[found.context]
    beyond = bool(predictor.extrapolated(graph, device, chosen[None])[0])
    rows = [_header(device.columns), [*_row(chosen, forecast, found.context), int(beyond)]]
    shared.write_or_show_table(rows, options.out, describe(found.context), force=options.force)
    if warning:
        shared.print_message(f"warning: {options.model.name}: {warning}")
    if beyond:
        shared.print_message(
            "warning: tasks may get contexts outside of their profiles; the bounds do not cover "
            "that."
        )


def _supported(predictor: GraphPredictor) -> tuple[float | None, str]:
    """The usual miscoverage, or what the model supports, and a warning of what differs."""
    from msbgen.core.conformal import supported_rate

    if not predictor.residual_:
        return None, (
            "has no intervals, so that limits are kept by predictions, not by bounds; fit it "
            "without --schedule-only on runs of 19 families for bounds."
        )
    families = len(predictor.families_)
    rate = supported_rate(_MISCOVERAGE, families)
    if rate == _MISCOVERAGE:
        return rate, ""
    return rate, (
        f"has {families} families, so that bounds are at a miscoverage of {rate:g}; fit it on 19 "
        f"or more for {_MISCOVERAGE:g}."
    )


def _header(columns: tuple[str, ...]) -> list[str]:
    units = {"time": "s", "energy": "J", "temperature": "degC"}
    cells = [f"{n}{end} [{u}]" for n, u in units.items() for end in ("", " at most")]
    return [*columns, *cells, "peak temperature at most [degC]", "extrapolated"]


def _row(context: NDArray[np.float64], forecast: Forecast, at: int) -> list[str]:
    numbers = (
        (forecast.time, forecast.time_bound),
        (forecast.energy, forecast.energy_bound),
        (forecast.temperature, forecast.temperature_bound),
    )
    cells = [f"{values[at]:.6g}" for pair in numbers for values in pair]
    cells.append(f"{forecast.peak_bound[at]:.6g}")
    return [*(f"{value:.15g}" for value in context), *cells]
