"""Graphs of regular programs: linear algebra, grids, butterflies, stages, iterations.

Edges follow the data that tasks read and write in the tiled or blocked algorithm of that name.
"""

import numpy as np

from msbgen.systems.graphs.families.builder import GraphBuilder


def lu(p: GraphBuilder, n: int) -> None:
    """Right-looking tiled LU without pivoting, n × n tiles."""
    write = p.add_tile
    for k in range(n):
        write(f"getrf-{k}", (k, k))
        for j in range(k + 1, n):
            write(f"trsm-row-{k}-{j}", (k, j), (k, k))
            write(f"trsm-column-{k}-{j}", (j, k), (k, k))
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                write(f"gemm-{k}-{i}-{j}", (i, j), (i, k), (k, j))


def cholesky(p: GraphBuilder, n: int) -> None:
    """Right-looking tiled Cholesky factorisation of n × n tiles, the lower half."""
    write = p.add_tile
    for k in range(n):
        write(f"potrf-{k}", (k, k))
        for i in range(k + 1, n):
            write(f"trsm-{k}-{i}", (i, k), (k, k))
        for i in range(k + 1, n):
            write(f"syrk-{k}-{i}", (i, i), (i, k))
            for j in range(k + 1, i):
                write(f"gemm-{k}-{i}-{j}", (i, j), (i, k), (j, k))


def qr(p: GraphBuilder, n: int) -> None:
    """Tiled QR factorisation with a flat tree (Buttari et al., 2009)."""
    last: dict[tuple[int, int], int] = {}

    def write(name: str, tiles: list[tuple[int, int]], *reads: int) -> int:
        number = p.add(name, [*(last[t] for t in tiles if t in last), *reads])
        last.update(dict.fromkeys(tiles, number))
        return number

    for k in range(n):
        factor = write(f"geqrt-{k}", [(k, k)])
        for j in range(k + 1, n):
            write(f"unmqr-{k}-{j}", [(k, j)], factor)
        for i in range(k + 1, n):
            factor = write(f"tsqrt-{k}-{i}", [(k, k), (i, k)])
            for j in range(k + 1, n):
                write(f"tsmqr-{k}-{i}-{j}", [(k, j), (i, j)], factor)


def triangular_solve(p: GraphBuilder, n: int) -> None:
    """Forward substitution with n blocks: every solved block updates those below."""
    right = [-1] * n
    for k in range(n):
        right[k] = p.add(f"solve-{k}", [right[k]] if k else [])
        for i in range(k + 1, n):
            right[i] = p.add(f"update-{k}-{i}", [right[k], *([right[i]] if k else [])])


def gauss(p: GraphBuilder, n: int) -> None:
    """Gaussian elimination by columns: a pivot, then an update of each column behind it."""
    column = [-1] * n
    for k in range(n - 1):
        column[k] = p.add(f"pivot-{k}", [column[k]] if k else [])
        for j in range(k + 1, n):
            column[j] = p.add(f"update-{k}-{j}", [column[k], *([column[j]] if k else [])])


def sparse_lu(p: GraphBuilder, n: int) -> None:
    """Blocked LU of a sparse matrix, blocks there at random, with fill-in (as in BOTS)."""
    there = {(i, j) for i in range(n) for j in range(n) if abs(i - j) < 2 or p.rng.random() < 0.25}
    write = p.add_tile
    for k in range(n):
        write(f"lu0-{k}", (k, k))
        rows = [j for j in range(k + 1, n) if (k, j) in there]
        columns = [i for i in range(k + 1, n) if (i, k) in there]
        for j in rows:
            write(f"fwd-{k}-{j}", (k, j), (k, k))
        for i in columns:
            write(f"bdiv-{k}-{i}", (i, k), (k, k))
        for i in columns:
            for j in rows:
                there.add((i, j))
                write(f"bmod-{k}-{i}-{j}", (i, j), (i, k), (k, j))


def matrix_product(p: GraphBuilder, n: int) -> None:
    """Tiles of C = A·B, n × n, each a chain of n products that are summed."""
    for i in range(n):
        for j in range(n):
            at = p.add(f"load-{i}-{j}")
            for k in range(n):
                at = p.add(f"gemm-{i}-{j}-{k}", [at])


def three_products(p: GraphBuilder, n: int) -> None:
    """(A·B)·(C·D) by n block rows: two products side by side, then one that needs rows of all."""
    left = [p.add(f"product-left-{i}") for i in range(n)]
    right = [p.add(f"product-right-{i}") for i in range(n)]
    for i in range(n):
        p.add(f"outer-{i}", [left[i], *right])


def wavefront(p: GraphBuilder, n: int) -> None:
    """Dynamic programming over a table of n × n blocks: each needs those above and to the left."""
    block: dict[tuple[int, int], int] = {}
    for i in range(n):
        for j in range(n):
            near = [block[t] for t in ((i - 1, j), (i, j - 1)) if t in block]
            block[i, j] = p.add(f"block-{i}-{j}", near)


def nussinov(p: GraphBuilder, n: int) -> None:
    """Interval dynamic programming: block (i, j) needs every shorter interval inside it."""
    block = {(i, i): p.add(f"base-{i}") for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            block[i, j] = p.add(f"fold-{i}-{j}", [block[i, j - 1], block[i + 1, j]])


def jacobi(p: GraphBuilder, n: int) -> None:
    """n strips of a grid, n / 2 sweeps: a strip needs itself and its neighbours of the last."""
    before = [p.add(f"fill-{i}") for i in range(n)]
    for t in range(max(n // 2, 1)):
        before = [
            p.add(f"sweep-{t}-{i}", [before[j] for j in (i - 1, i, i + 1) if 0 <= j < n])
            for i in range(n)
        ]


def seidel(p: GraphBuilder, n: int) -> None:
    """n strips, n / 2 sweeps in place: a strip needs its left one of this sweep already."""
    strips = [-1] * n
    for t in range(max(n // 2, 1)):
        for i in range(n):
            near = [strips[i - 1]] if i else []
            near += [strips[j] for j in (i, i + 1) if t and j < n]
            strips[i] = p.add(f"relax-{t}-{i}", near)


def heat(p: GraphBuilder, n: int) -> None:
    """A plane of n × n blocks in three steps, each block with its four neighbours, and norms."""
    cells = [(i, j) for i in range(n) for j in range(n)]
    before = {cell: p.add(f"start-{cell[0]}-{cell[1]}") for cell in cells}
    for t in range(3):
        now = {}
        for i, j in cells:
            near = [(i, j), (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
            now[i, j] = p.add(f"step-{t}-{i}-{j}", [before[c] for c in near if c in before])
        p.add(f"norm-{t}", now.values(), by="join")
        before = now


def floyd_warshall(p: GraphBuilder, n: int) -> None:
    """Blocked shortest paths: pivot block, its row and column, then all others, n times."""
    write = p.add_tile
    for k in range(n):
        write(f"pivot-{k}", (k, k))
        others = [i for i in range(n) if i != k]
        for i in others:
            write(f"row-{k}-{i}", (k, i), (k, k))
            write(f"column-{k}-{i}", (i, k), (k, k))
        for i in others:
            for j in others:
                write(f"relax-{k}-{i}-{j}", (i, j), (i, k), (k, j))


def fft(p: GraphBuilder, n: int) -> None:
    """Butterflies: 2ⁿ pieces in bit-reversed order, n stages, piece i with i xor 2ˢ."""
    pieces = [p.add(f"load-{i}") for i in range(2**n)]
    for s in range(n):
        pieces = [
            p.add(f"butterfly-{s}-{i}", [pieces[i], pieces[i ^ (1 << s)]]) for i in range(2**n)
        ]


def bitonic_sort(p: GraphBuilder, n: int) -> None:
    """Bitonic sorting network of 2ⁿ blocks: blocks are sorted, then pairs merged and split."""
    blocks = [p.add(f"sort-{i}") for i in range(2**n)]
    for stage in range(n):
        for s in range(stage, -1, -1):
            for i in range(2**n):
                j = i | (1 << s)
                if i != j:
                    both = p.add(f"exchange-{stage}-{s}-{i}", [blocks[i], blocks[j]])
                    blocks[i] = blocks[j] = both


def chain(p: GraphBuilder, n: int) -> None:
    """n tasks one after another, of two sorts in turn."""
    at: list[int] = []
    for i in range(n):
        at = [p.add(f"{('odd', 'even')[i % 2]}-{i}", at)]


def fork_join(p: GraphBuilder, n: int) -> None:
    """Four rounds: a master spawns n workers and joins them."""
    at = p.add("master-0")
    for t in range(4):
        workers = [p.add(f"worker-{t}-{i}", [at], by="spawn") for i in range(n)]
        at = p.add(f"master-{t + 1}", workers, by="join")


def map_reduce(p: GraphBuilder, n: int) -> None:
    """n maps, n / 3 reducers that each need all of them, one that collects."""
    split = p.add("split")
    maps = [p.add(f"map-{i}", [split], by="spawn") for i in range(n)]
    reducers = [p.add(f"reduce-{i}", maps) for i in range(max(n // 3, 1))]
    p.add("collect", reducers, by="join")


def pipeline(p: GraphBuilder, n: int) -> None:
    """n items through four stages, in order within each (as a transcoder)."""
    before: dict[str, int] = {}
    for i in range(n):
        at: list[int] = []
        for stage in ("read", "decode", "filter", "encode"):
            after = [*at, *([before[stage]] if stage in before else [])]
            before[stage] = p.add(f"{stage}-{i}", after)
            at = [before[stage]]


def conjugate_gradients(p: GraphBuilder, n: int) -> None:
    """Four iterations over n strips: product, dot product, update, norm."""
    strips = [p.add(f"start-{i}") for i in range(n)]
    for t in range(4):
        products = [
            p.add(f"spmv-{t}-{i}", [strips[j] for j in (i - 1, i, i + 1) if 0 <= j < n])
            for i in range(n)
        ]
        alpha = p.add(f"dot-{t}", products, by="join")
        strips = [p.add(f"axpy-{t}-{i}", [alpha, products[i]]) for i in range(n)]


def k_means(p: GraphBuilder, n: int) -> None:
    """Four rounds: n parts of the points are assigned, their sums reduced by twos, centres set."""
    at = p.add("seed")
    for t in range(4):
        level = [p.add(f"assign-{t}-{i}", [at], by="spawn") for i in range(n)]
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [p.add(f"sum-{t}-{len(level)}-{i}", pair) for i, pair in enumerate(pairs)]
        at = p.add(f"centres-{t}", level, by="join")


def page_rank(p: GraphBuilder, n: int) -> None:
    """Three rounds over n parts of a graph whose parts link each other at random."""
    links: list[list[int]] = []
    count = 0
    for i in range(n):
        p.check_edges(3 * count)
        links.append(np.flatnonzero(np.insert(p.rng.random(n - 1) < 0.3, i, True)).tolist())
        count += len(links[-1])
    parts = [p.add(f"load-{i}") for i in range(n)]
    for t in range(3):
        parts = [p.add(f"rank-{t}-{i}", [parts[j] for j in links[i]]) for i in range(n)]
    p.add("check", parts, by="join")


def molecules(p: GraphBuilder, n: int) -> None:
    """Three steps of n cells: forces of a cell need its neighbours, then moves, then a barrier."""
    cells = [p.add(f"place-{i}") for i in range(n)]
    for t in range(3):
        forces = [
            p.add(f"force-{t}-{i}", {cells[i - 1], cells[i], cells[(i + 1) % n]}) for i in range(n)
        ]
        moved = [p.add(f"move-{t}-{i}", [force]) for i, force in enumerate(forces)]
        thermostat = p.add(f"thermostat-{t}", moved, by="join")
        cells = [thermostat] * n


def alignment(p: GraphBuilder, n: int) -> None:
    """Every pair of n sequences is aligned alone, then a tree is built (as in BOTS)."""
    read = p.add("read")
    pairs = [p.add(f"align-{i}-{j}", [read], by="spawn") for i in range(n) for j in range(i + 1, n)]
    p.add("tree", [read, *pairs], by="join")


def mosaic(p: GraphBuilder, n: int) -> None:
    """Sky mosaic of n pictures: project, fit differences of neighbours, correct, add."""
    projected = [p.add(f"project-{i}") for i in range(n)]
    overlaps = [(i, j) for i in range(n) for j in (i + 1, i + 3) if j < n]
    fits = [p.add(f"difference-{i}-{j}", [projected[i], projected[j]]) for i, j in overlaps]
    model = p.add("model", fits or projected, by="join")
    corrected = [p.add(f"correct-{i}", [model, projected[i]]) for i in range(n)]
    p.add("shrink", [p.add("mosaic", corrected, by="join")])


def genome(p: GraphBuilder, n: int) -> None:
    """Reads in n chunks: filter, convert, map, each chunk alone; merge, index, pile up."""
    split = p.add("split")
    mapped = []
    for i in range(n):
        clean = p.add(f"filter-{i}", [split], by="spawn")
        mapped.append(p.add(f"map-{i}", [p.add(f"convert-{i}", [clean])]))
    p.add("pileup", [p.add("index", [p.add("merge", mapped, by="join")])])
