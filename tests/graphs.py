"""Slow answers about task graphs, and graphs that hypothesis draws; nothing of the package."""

import itertools

from hypothesis import strategies as st


def all_paths(n, edges):
    """Every path of a graph from a task without predecessors to one without successors."""
    after = {i: [t for s, t in edges if s == i] for i in range(n)}
    waiting = {t for _, t in edges}

    def walk(path):
        if not after[path[-1]]:
            yield path
        for task in after[path[-1]]:
            yield from walk([*path, task])

    return [p for i in range(n) if i not in waiting for p in walk([i])]


def longest_path(n, edges, weights):
    """Weight of the heaviest path."""
    return max(sum(weights[i] for i in path) for path in all_paths(n, edges))


@st.composite
def small_graphs(draw, most=7):
    """Number of tasks, edges from lower to higher numbers shuffled, works."""
    n = draw(st.integers(1, most))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * n)) if pairs else []
    names = draw(st.permutations(range(n)))
    works = draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    return n, [(names[s], names[t]) for s, t in chosen], [w / 4 for w in works]
