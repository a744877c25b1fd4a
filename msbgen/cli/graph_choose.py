"""``msbgen graph choose``: the context to run a graph in, within limits that hold."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import graph as whole
from msbgen.cli import options as shared
from msbgen.cli.options import Verbs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from msbgen.graphs.forecast import Forecast


def add(verbs: Verbs) -> None:
    """Add the part and its options."""
    verb = shared.new_verb(verbs, "choose", run, "choose a context for a graph, within limits")
    verb.add_argument("model", type=Path, metavar="MODEL.nc", help="of 'msbgen graph fit'")
    verb.add_argument("graph", type=Path, metavar="GRAPH|FAMILY:SIZE")
    whole.add_device(verb)
    shared.add_contexts(verb, "the device")
    verb.add_argument(
        "--objective",
        choices=("energy", "edp", "time", "cost"),
        default="energy",
        help="what is made small: energy, energy-delay product, time; or what agents are charged, "
        "time and half the energy, each over that in the largest context, and heat (%(default)s)",
    )
    verb.add_argument(
        "--latency", type=shared.duration, metavar="TIME", help="deadline of a run, as 500ms"
    )
    verb.add_argument(
        "--power", type=shared.number, metavar="WATTS", help="highest mean power of a run"
    )
    verb.add_argument("--cap", type=shared.degrees, metavar="T", help="highest temperature, in °C")
    verb.add_argument(
        "--miscoverage",
        type=shared.rate,
        default=0.05,
        metavar="A",
        help="share of runs of graphs of new families outside their intervals (%(default)s)",
    )
    verb.add_argument(
        "--temperature", type=shared.degrees, metavar="T", help="at the start, in °C (ambient)"
    )
    shared.add_table_out(verb, "OUT.csv", "the row")
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Choose, and say what is thought of the choice."""
    contexts = shared.contexts_file(options.contexts)
    inputs = [options.model, whole.graph_file(options.graph), contexts]
    shared.check_files(
        [*inputs, whole.sheet_file(options.device)], [options.out], force=options.force
    )

    from msbgen.core.choice import Limits
    from msbgen.graphs.agents import search, worlds
    from msbgen.graphs.predictor import storage
    from msbgen.graphs.predictor.forecaster import GraphForecaster

    predictor = storage.load_graph_model(options.model)
    device = whole.read_device(options.device)
    with shared.about("--miscoverage"):
        forecaster = GraphForecaster(predictor, device, options.miscoverage)
    graph = whole.read(options.graph, seed=options.seed)
    whole.tell_shares(graph)
    table = whole.device_contexts(device, options.contexts)
    start = device.ambient if options.temperature is None else options.temperature
    with shared.about(options.device):
        said = forecaster.forecast(graph, table, start)
    objective = options.objective
    if objective == "cost":
        reference = search.reference_of(forecaster, device, graph)
        bounds = said.time_bound, said.energy_bound, said.temperature_bound
        costs = worlds.Cost().of(*bounds, reference)
        objective = lambda _: costs  # noqa: E731 - the choice takes a function
    given = {"latency": options.latency, "power": options.power}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})

    def describe(context: int) -> str:
        return device.describe(table[context])

    with shared.about(str(options.graph.name)):
        found = search.choose_context(
            said, objective=objective, limits=limits, cap=options.cap, name=describe
        )
    chosen = table[found.context]
    beyond = bool(predictor.extrapolated(graph, device, chosen[None])[0])
    rows = [_header(device.columns), [*_row(chosen, said, found.context), int(beyond)]]
    shared.give_table(rows, options.out, describe(found.context), force=options.force)
    if beyond:
        shared.say(
            "warning: tasks may be given what their profiles say nothing of; the bounds do not "
            "cover that."
        )


def _header(columns: tuple[str, ...]) -> list[str]:
    units = {"time": "s", "energy": "J", "temperature": "degC"}
    told = [f"{n}{end} [{u}]" for n, u in units.items() for end in ("", " at most")]
    return [*columns, *told, "peak temperature at most [degC]", "extrapolated"]


def _row(context: NDArray[np.float64], said: Forecast, at: int) -> list[str]:
    numbers = (
        (said.time, said.time_bound),
        (said.energy, said.energy_bound),
        (said.temperature, said.temperature_bound),
    )
    told = [f"{values[at]:.6g}" for pair in numbers for values in pair]
    told.append(f"{said.peak_bound[at]:.6g}")
    return [*(f"{value:.15g}" for value in context), *told]
