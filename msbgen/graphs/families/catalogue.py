"""Task graphs of well-known parallel programs, in any size; nothing is measured.

Each family is the graph of an algorithm (tiled factorisations, wavefronts, butterflies, recursive
sorts and searches, workflows).  Its operations have the profiles of programs whose traces ship.
Predictors hold out whole families.  The shapes are in
:mod:`msbgen.graphs.families.shapes` and :mod:`msbgen.graphs.families.recursions`.
"""

from __future__ import annotations

import difflib
import operator

import numpy as np
import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.families import recursions, shapes
from msbgen.graphs.families.builder import Family

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*shapes.FAMILIES, *recursions.FAMILIES)
}
# Graphs of more tasks take minutes to build.
_MOST_TASKS = 20_000


def family_graph(
    family: str, size: int | None = None, *, scale: float = 1.0, rng: np.random.Generator | int = 0
) -> xr.Dataset:
    """Draw a graph of a family.

    Parameters
    ----------
    family : str
        A name of :data:`FAMILIES`.
    size : int
        Number of tiles, levels or parts, by family; a middle size where not given.
    scale : float
        Factor of the works of all tasks.
    rng : numpy.random.Generator or int
        For random shapes and works.

    Returns
    -------
    xarray.Dataset
        Schema ``msbgen-graph/1``.

    Raises
    ------
    ArgumentError
        No such family, or an invalid size.

    Examples
    --------
    >>> graph = family_graph("cholesky", 4)
    >>> graph.sizes["task"], sorted(set(graph["kind"].values.tolist()))
    (20, ['cg', 'openssl', 'zstd'])
    """
    if family not in FAMILIES:
        near = difflib.get_close_matches(str(family), FAMILIES, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(FAMILIES)} is wanted."
        raise ArgumentError(f"family is '{family}'; {hint}")
    if not 0 < scale < float("inf"):
        raise ArgumentError(f"scale is {scale}; a positive number is wanted.")
    shape = FAMILIES[family]
    middle = shape.sizes[len(shape.sizes) // 2]
    try:
        n = middle if size is None else operator.index(size)
    except TypeError:
        n = 0
    if n < 1:
        raise ArgumentError(f"size is {size}; a whole number ≥ 1 is wanted, as {middle}.")
    program = shape.draw(n, np.random.default_rng(rng), _MOST_TASKS)
    return make_graph(
        program.kinds,
        scale * np.array(program.works),
        program.edges,
        names=program.names,
        types=program.types,
        loops=np.array(program.loops, dtype=float),
        name=f"{family}-{n}",
        family=family,
    )
