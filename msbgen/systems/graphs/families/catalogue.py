"""Task graphs of well-known parallel programs, in any size; nothing is measured.

Each family is the graph of an algorithm (tiled factorisations, wavefronts, butterflies, recursive
sorts and searches, workflows).  Its operations have the profiles of programs whose traces ship.
Predictors hold out whole families.  The shapes are in
:mod:`msbgen.graphs.families.shapes` and :mod:`msbgen.graphs.families.recursions`.
"""

import difflib
import operator

import numpy as np
import xarray as xr

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.records import Count, Positive, checks_arguments
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.families import recursions, shapes
from msbgen.systems.graphs.families.builder import Family, TaskTemplate

# A row a family: name, sizes that make about 10 to 200 tasks, operations.  An operation has a kind,
# its work [runs of the kind], the depth of nested loops (1 where not given), and the standard
# deviation of the logarithm of the work (0 where not given).
_TABLE = """
lu: 3 4 5 6 7 8: getrf openssl 0.02 3, trsm zstd 0.03 3, gemm cg 0.04 3
cholesky: 4 5 6 7 8 9: potrf openssl 0.02 3, trsm zstd 0.03 3, syrk zstd 0.03 3, gemm cg 0.05 3
qr: 3 4 5 6 7: geqrt openssl 0.03 3, unmqr cg 0.03 3, tsqrt zstd 0.04 3, tsmqr cg 0.05 3
triangular-solve: 5 8 11 14 17: solve gzip 0.02 2, update sort 0.02 2
gauss: 6 9 12 15 18: pivot bc 0.02, update ffmpeg 0.03 2
sparse-lu: 4 5 6 7 8: lu0 gcc 0.02 3, fwd zstd 0.03 3, bdiv bzip2 0.03 3, bmod cg 0.03 3
matrix-product: 2 3 4 5: load sqlite 0.01 2, gemm cg 0.05 3
three-products: 4 8 16 32 48: product ffmpeg 0.06 3, outer cg 0.06 3
wavefront: 4 6 8 10 13: block bzip2 0.03 2
nussinov: 5 8 11 14 18: base bc 0.01, fold gcc 0.03 3
jacobi: 5 8 11 14 18: fill sort 0.01, sweep cg 0.04 2
seidel: 6 9 12 15 19: relax ffmpeg 0.03 2
heat: 2 3 4 5 6: start sqlite 0.01, step zstd 0.05 3, norm bc 0.01
floyd-warshall: 2 3 4 5: pivot python 0.02 3, row sort 0.02 3, column sort 0.02 3,
    relax sort 0.03 3
fft: 2 3 4 5: load gzip 0.02, butterfly ffmpeg 0.03
bitonic-sort: 2 3 4: sort sort 0.05 2, exchange sort 0.02
chain: 10 15 25 40: odd gzip 0.03, even sqlite 0.02
fork-join: 4 8 16 24 40: master bc 0.01, worker gcc 0.04 2 0.3
map-reduce: 8 16 32 64 96: split sqlite 0.02, map python 0.03 1 0.4, reduce sort 0.03 1 0.2,
    collect sqlite 0.02
pipeline: 5 10 20 30 45: read sqlite 0.01, decode zstd 0.02 2 0.1, filter openssl 0.02 2,
    encode ffmpeg 0.05 2 0.3
conjugate-gradients: 3 6 10 15 20: start sqlite 0.01, spmv cg 0.05 2, dot bc 0.005, axpy sort 0.01
k-means: 4 8 12 16 22: seed bc 0.01, assign python 0.04 2, sum bc 0.01, centres gcc 0.01
page-rank: 5 10 16 24 36: load sqlite 0.02, rank sqlite 0.05 2 0.3, check bc 0.01
molecules: 4 8 12 18 28: place bc 0.01, force openssl 0.05 3 0.2, move bzip2 0.01,
    thermostat bc 0.005
alignment: 5 7 10 14 18: read gzip 0.02, align bzip2 0.04 2 0.4, tree python 0.04
mosaic: 5 10 18 28 40: project ffmpeg 0.06 2 0.2, difference zstd 0.02 2 0.3, model python 0.05 2,
    correct ffmpeg 0.02 2, mosaic sort 0.06, shrink gzip 0.03
genome: 4 10 20 35 55: split sqlite 0.03, filter python 0.02 1 0.1, convert gzip 0.03 1 0.1,
    map bzip2 0.08 2 0.3, merge sort 0.05, index sqlite 0.03, pileup gcc 0.04
merge-sort: 2 3 4 5: split sqlite 0.05, leaf sort 0.3 2, merge sort 0.2
quick-sort: 3 4 5 6: partition sort 0.3, leaf python 0.02 2 0.2
strassen: 1 2: sum cg 0.2 2, product ffmpeg 3 3, gather cg 0.2 2, whole sqlite 0.05
fibonacci: 4 5 6 7 8: call bc 0.004 0, sum bc 0.002 0
queens: 5 6 8 10 12: start bc 0.005, row bc 0.005, board gcc 0.15, count bc 0.005
tree-search: 4 5 6 7: root openssl 0.01, node openssl 0.03 1 0.5
floorplan: 5 7 9 11: start python 0.01, place python 0.03 2 0.3, best bc 0.005
health: 2 4 7 11 17: village sqlite 0.03 2 0.4, hospital gcc 0.03 2 0.2, central gcc 0.02
knapsack: 5 7 9 12: root gzip 0.01, branch gzip 0.04 1 0.4, best bc 0.005
reduction: 3 4 5 6: leaf zstd 0.05, sum bzip2 0.02
broadcast: 2 3 4: root gzip 0.03, node gzip 0.03 1 0.1
layers: 4 8 14 22 32: a bzip2 0.03 2 0.5, b python 0.02 1 0.5, c sort 0.03 1 0.5
series-parallel: 3 8 15 25 40: work ffmpeg 0.04 2 0.4, fork bc 0.005, join sqlite 0.01
"""


def _families() -> dict[str, Family]:
    """Families of the table, by name; each is drawn by the function of its name."""
    families: dict[str, Family] = {}
    functions = vars(shapes) | vars(recursions)
    for row in _TABLE.strip().replace(",\n", ",").splitlines():
        name, sizes, cells = row.split(":")
        operations = {}
        for cell in cells.split(","):
            operation, kind, work, *more = cell.split()
            operations[operation] = TaskTemplate(
                kind, float(work), *map(int, more[:1]), *map(float, more[1:])
            )
        shape = functions[name.replace("-", "_")]
        families[name] = Family(name, shape, tuple(map(int, sizes.split())), operations)
    return families


FAMILIES = _families()
# Graphs of more tasks take minutes to build.
_MOST_TASKS = 20_000


@checks_arguments
def family_graph(
    family: str,
    size: Count | None = None,
    *,
    scale: Positive = 1.0,
    rng: np.random.Generator | int = 0,
) -> xr.Dataset:
    """Draw a graph of a family.

    Parameters
    ----------
    family : str
        One of :data:`FAMILIES`.
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
    shape = FAMILIES[family]
    middle = shape.sizes[len(shape.sizes) // 2]
    try:
        n = middle if size is None else operator.index(size)
    except TypeError:
        n = 0
    if n < 1:
        raise ArgumentError(f"size is {size}; a whole number ≥ 1 is wanted, as {middle}.")
    program = shape.draw(n, generator(rng), _MOST_TASKS)
    return make_graph(
        program.kinds, scale * np.array(program.works), program.edges, names=program.names,
        types=program.types, loops=np.array(program.loops, dtype=float), name=f"{family}-{n}",
        family=family,
    )  # fmt: skip
