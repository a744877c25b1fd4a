"""A small world: two kinds of tasks on a TX2, few contexts, graphs of a second or so."""

from functools import cache

import numpy as np

import soc
from msbgen.systems.graphs.agents.worlds import World, plain_contexts
from msbgen.systems.graphs.devices import shipped_device
from msbgen.systems.graphs.families.catalogue import family_graph
from msbgen.systems.graphs.simulator import Simulator

TX2 = shipped_device("tx2")
TABLES = {
    "a": soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0))),
    "b": soc.toy_table(((1.0, 0.8, 0.3, 1.0),)),
}


def graph(family, size, scale=1.0):
    """A graph of a family, its tasks of the kinds a and b in turn."""
    drawn = family_graph(family, size, scale=scale)
    kinds = ["ab"[i % 2] for i in range(drawn.sizes["task"])]
    return drawn.assign(kind=("task", np.array(kinds)))


@cache
def simulator():
    return Simulator(TX2, TABLES)


def world(clocks=2, length=4, scale=1.0, **given):
    graphs = [graph("cholesky", 3, scale), graph("map-reduce", 4, scale), graph("fft", 2, scale)]
    contexts = plain_contexts(TX2, clocks)
    return World(simulator(), graphs, contexts=contexts, length=length, **given)


@cache
def three_clocks():
    """A world that tests share; they ask for it when they run, for it compiles what plays it."""
    return world(clocks=3)
