"""``msbgen graph choose``: the cheapest context for a graph within limits."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import graph as graph_options
from msbgen.cli import options as shared
from msbgen.cli.options import Verbs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from msbgen.graphs.forecast import Forecast


def add(verbs: Verbs) -> None:
    """Add the part and its options."""
    verb = shared.new_verb(
        verbs, "choose", run, "choose the cheapest context for a graph within limits"
    )
    verb.add_argument("model", type=Path, metavar="MODEL.nc", help="file of 'msbgen graph fit'")
    verb.add_argument("graph", type=Path, metavar="GRAPH|FAMILY:SIZE")
    graph_options.add_device(verb)
    shared.add_contexts(verb, "the device")
    verb.add_argument(
        "--objective",
        choices=("energy", "edp", "time", "cost"),
        default="energy",
        help="minimised: energy, energy-delay product, time; or cost: time plus half the energy, "
        "each relative to the largest context, plus heat (%(default)s)",
    )
    verb.add_argument(
        "--latency", type=shared.duration, metavar="TIME", help="deadline of a run, such as 500ms"
    )
    verb.add_argument(
        "--power", type=shared.number, metavar="WATTS", help="highest mean power of a run"
    )
    verb.add_argument("--cap", type=shared.degrees, metavar="T", help="highest temperature in °C")
    verb.add_argument(
        "--miscoverage",
        type=shared.rate,
        default=0.05,
        metavar="A",
        help="probability that a graph of a new family is outside its interval (%(default)s)",
    )
    verb.add_argument(
        "--temperature",
        type=shared.degrees,
        metavar="T",
        help="temperature at the start in °C (ambient)",
    )
    shared.add_table_out(verb, "OUT.csv", "the row")
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Choose, and print the choice with its predictions."""
    contexts = shared.file_of_contexts(options.contexts)
    inputs = [options.model, graph_options.graph_file(options.graph), contexts]
    shared.check_files(
        [*inputs, graph_options.sheet_file(options.device)], [options.out], force=options.force
    )

    from msbgen.core.choice import Limits
    from msbgen.graphs.agents import search, worlds
    from msbgen.graphs.predictor import storage
    from msbgen.graphs.predictor.forecaster import GraphForecaster

    predictor = storage.load(options.model)
    device = graph_options.read_device(options.device)
    with shared.errors_from("--miscoverage"):
        forecaster = GraphForecaster(predictor, device, options.miscoverage)
    graph = graph_options.read(options.graph, seed=options.seed)
    graph_options.warn_about_shares(graph)
    table = graph_options.device_contexts(device, options.contexts)
    start = device.ambient if options.temperature is None else options.temperature
    with shared.errors_from(options.device):
        forecast = forecaster.forecast(graph, table, start)
    objective = options.objective
    if objective == "cost":
        reference = search.reference_of(forecaster, device, graph)
        bounds = forecast.time_bound, forecast.energy_bound, forecast.temperature_bound
        costs = worlds.Cost().of(*bounds, reference)
        objective = lambda _: costs  # noqa: E731 - an objective is a function
    chosen_limits = {"latency": options.latency, "power": options.power}
    limits = Limits(**{name: value for name, value in chosen_limits.items() if value is not None})

    def describe(context: int) -> str:
        return device.describe(table[context])

    with shared.errors_from(str(options.graph.name)):
        found = search.choose_context(
            forecast, objective=objective, limits=limits, cap=options.cap, name=describe
        )
    chosen = table[found.context]
    beyond = bool(predictor.extrapolated(graph, device, chosen[None])[0])
    rows = [_header(device.columns), [*_row(chosen, forecast, found.context), int(beyond)]]
    shared.write_or_show_table(rows, options.out, describe(found.context), force=options.force)
    if beyond:
        shared.print_message(
            "warning: tasks may get contexts outside of their profiles; the bounds do not cover "
            "that."
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
