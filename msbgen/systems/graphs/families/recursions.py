"""Graphs of recursive and irregular programs: sorts, searches, trees, data-dependent shapes."""

from msbgen.systems.graphs.families.builder import GraphBuilder


def merge_sort(p: GraphBuilder, n: int) -> None:
    """Recursive merge sort, n levels: halves are split, leaves sorted, halves merged."""

    def sort(level: int, place: int, parent: list[int]) -> int:
        size = 2.0**-level
        if level == n:
            return p.add(f"leaf-{place}", parent, by="spawn", work=size * n)
        here = [p.add(f"split-{level}-{place}", parent, by="spawn", work=size)]
        halves = [sort(level + 1, 2 * place + i, here) for i in range(2)]
        return p.add(f"merge-{level}-{place}", halves, by="join", work=size)

    sort(0, 0, [])


def quick_sort(p: GraphBuilder, n: int) -> None:
    """Quick sort of 2ⁿ pieces: partitions split unevenly at random until a piece is left."""

    def sort(pieces: int, name: str, parent: list[int]) -> None:
        if pieces <= 1:
            p.add(f"leaf-{name}", parent, by="spawn")
            return
        here = [p.add(f"partition-{name}", parent, by="spawn", work=pieces / 2**n)]
        left = int(p.rng.integers(1, pieces))
        sort(left, f"{name}0", here)
        sort(pieces - left, f"{name}1", here)

    sort(2**n, "r", [])


def strassen(p: GraphBuilder, n: int) -> None:
    """Strassen's product, n levels: ten sums, seven products, four sums that need some of them."""
    needs = ((0, 3, 4, 6), (2, 4), (1, 3), (0, 1, 2, 5))

    def multiply(level: int, name: str, parents: list[int]) -> int:
        size = 4.0**-level
        if level == n:
            return p.add(f"product-{name}", parents, work=7.0**-level)
        before = [p.add(f"sum-{name}-{i}", parents, work=size) for i in range(2)]
        products = [multiply(level + 1, f"{name}{i}", before) for i in range(7)]
        quarters = [
            p.add(f"gather-{name}-{q}", [products[i] for i in of], work=size)
            for q, of in enumerate(needs)
        ]
        return p.add(f"whole-{name}", quarters, by="join", work=size)

    multiply(0, "r", [])


def fibonacci(p: GraphBuilder, n: int) -> None:
    """Two calls for each call of fib(n), joined: the smallest tasks there are (as in BOTS)."""

    def call(k: int, name: str, parent: list[int]) -> int:
        here = p.add(f"call-{name}", parent, by="spawn")
        if k < 2:
            return here
        both = [call(k - 1, f"{name}0", [here]), call(k - 2, f"{name}1", [here])]
        return p.add(f"sum-{name}", both, by="join")

    call(n, "r", [])


def queens(p: GraphBuilder, n: int) -> None:
    """All placements of n queens: a task a partial board of two rows, and what is below it.

    The work of a board is what a search below it visits.
    """
    boards = {(i, j): _visited(n, (i, j)) for i in range(n) for j in range(n) if abs(i - j) > 1}
    most = max([*boards.values(), 1])
    root = p.add("start")
    rows = {i: p.add(f"row-{i}", [root], by="spawn") for i in dict.fromkeys(i for i, _ in boards)}
    placements = [
        p.add(f"board-{i}-{j}", [rows[i]], by="spawn", work=max(visited, 1) / most)
        for (i, j), visited in boards.items()
    ]
    p.add("count", placements or [root], by="join")


def _visited(n: int, placed: tuple[int, ...]) -> int:
    """Boards that a search visits below some queens placed in the first rows; up to six rows."""
    columns = left = right = 0  # attacked columns of the next row, a bit each
    for column in placed:
        columns, left, right = _attacked(1 << column, columns, left, right)
    return _below(min(n, 6) - len(placed), (1 << n) - 1, columns, left, right)


def _attacked(queen: int, columns: int, left: int, right: int) -> tuple[int, int, int]:
    """Columns of the row below that are attacked straight and along both diagonals."""
    return columns | queen, (left | queen) << 1, (right | queen) >> 1


def _below(rows: int, board: int, columns: int, left: int, right: int) -> int:
    """Boards that a search of so many more rows visits, this one included."""
    count, free = 1, board & ~(columns | left | right) if rows > 0 else 0
    while free:
        queen = free & -free
        free ^= queen
        count += _below(rows - 1, board, *_attacked(queen, columns, left, right))
    return count


def tree_search(p: GraphBuilder, n: int) -> None:
    """Unbalanced tree search: a node has children at random, fewer the deeper (geometric UTS)."""
    level = [p.add("root")]
    for depth in range(n):
        below = []
        for node in level:
            children = int(p.rng.geometric(1.0 / (1.0 + 3.0 * (1.0 - depth / n)))) - 1
            children = max(min(children, 8), 2 if depth < 2 else 0)
            below += [p.add(f"node-{len(p.names)}", [node], by="spawn") for _ in range(children)]
        level = below[: 16 * (depth + 1)]


def floorplan(p: GraphBuilder, n: int) -> None:
    """Branch and bound over n cells: every node tries up to three places, half are cut off."""
    level = [p.add("start")]
    for depth in range(n):
        tried = []
        for node in level:
            tried += [
                p.add(
                    f"place-{depth}-{len(p.names)}", [node], by="spawn", work=1.0 - 0.7 * depth / n
                )
                for _ in range(int(p.rng.integers(1, 4)))
            ]
        kept = [node for node in tried if p.rng.random() < 0.6]
        level = (kept or tried[:1])[:10]
    p.add("best", level, by="join")


def health(p: GraphBuilder, n: int) -> None:
    """Villages under hospitals in a tree of three levels, n at a hospital, three time steps."""
    before: dict[str, int] = {}
    for t in range(3):
        now: dict[str, int] = {}

        def last(place: str, before: dict[str, int] = before) -> list[int]:
            return [before[place]] if place in before else []

        regions = []
        for r in range(3):
            villages = [f"{r}-{v}" for v in range(n)]
            for place in villages:
                now[place] = p.add(f"village-{t}-{place}", last(place))
            name = f"{r}"
            now[name] = p.add(
                f"hospital-{t}-{r}", [*last(name), *(now[v] for v in villages)], by="join"
            )
            regions.append(name)
        now["top"] = p.add(f"central-{t}", [*last("top"), *(now[r] for r in regions)], by="join")
        before = now


def knapsack(p: GraphBuilder, n: int) -> None:
    """Branch and bound over n items: with and without, branches cut at random, the best kept."""
    level, ends = [p.add("root")], []
    for depth in range(n):
        below = []
        for node in level:
            if depth > 2 and p.rng.random() < 0.35:
                ends.append(node)
                continue
            below += [p.add(f"branch-{depth}-{len(p.names)}", [node], by="spawn") for _ in range(2)]
        level = below[:12]
        ends += below[12:]
    p.add("best", [*ends, *level], by="join")


def reduction(p: GraphBuilder, n: int) -> None:
    """2ⁿ leaves summed by twos."""
    level = [p.add(f"leaf-{i}") for i in range(2**n)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2])
        level = [p.add(f"sum-{len(level)}-{i}", pair, by="join") for i, pair in enumerate(pairs)]


def broadcast(p: GraphBuilder, n: int) -> None:
    """A root that spawns by threes down to n levels."""
    level = [p.add("root")]
    for depth in range(n):
        level = [
            p.add(f"node-{depth}-{i}-{k}", [node], by="spawn")
            for i, node in enumerate(level)
            for k in range(3)
        ]


def layers(p: GraphBuilder, n: int) -> None:
    """n layers of 2 to 9 tasks, each after one to three random ones of the layer before."""
    before: list[int] = []
    for layer in range(n):
        here = []
        for i in range(int(p.rng.integers(2, 10))):
            some = int(min(len(before), p.rng.integers(1, 4)))
            after = p.rng.choice(before, some, replace=False).tolist() if before else []
            here.append(p.add(f"{'abc'[int(p.rng.integers(3))]}-{layer}-{i}", after))
        before = here


def series_parallel(p: GraphBuilder, n: int) -> None:
    """A random series-parallel program: n times a part becomes a row or a fork of three parts."""
    shape: list[object] = ["leaf"]
    parts = [shape]
    for _ in range(n):
        part = parts.pop(int(p.rng.integers(len(parts))))
        inner: list[list[object]] = [["leaf"] for _ in range(3)]
        part[:] = ["row" if p.rng.random() < 0.4 else "fork", *inner]
        parts += inner

    def add(part: list[object], after: list[int], name: str) -> list[int]:
        if part[0] == "leaf":
            return [p.add(f"work-{name}", after)]
        inner = [x for x in part[1:] if isinstance(x, list)]
        if part[0] == "row":
            for i, x in enumerate(inner):
                after = add(x, after, f"{name}{i}")
            return after
        fork = [p.add(f"fork-{name}", after)]
        ends = [end for i, x in enumerate(inner) for end in add(x, fork, f"{name}{i}")]
        return [p.add(f"join-{name}", ends, by="join")]

    add(shape, [], "r")
