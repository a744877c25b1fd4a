"""Kernels beside plain Python: lanes, and what runs without compilation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forks import anew
from msbgen.systems.realtime import _kernels


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_merging_two_cores_is_a_max_plus_convolution(columns, rows, seed):
    rng = np.random.default_rng(seed)
    pad = -(-columns // _kernels.LANES) * _kernels.LANES
    a, b = (np.full((rows, 2 * pad), -np.inf, dtype=np.float32) for _ in range(2))
    for x in (a, b):
        x[:, pad : pad + columns] = rng.random((rows, columns))
    triples = np.array([(i, j, i + j) for i in range(rows) for j in range(rows - i)])
    out = np.empty_like(a)
    _kernels.merge(a, b, triples, columns, out)
    for k in range(rows):
        for x in range(columns):
            best = max(
                a[i, pad + y] + b[k - i, pad + x - y] for i in range(k + 1) for y in range(x + 1)
            )
            assert out[k, pad + x] == best


UNCOMPILED = """
import numpy as np
from msbgen.systems.realtime import _kernels
from msbgen.systems.realtime.allocate import Allocator
from platforms import make_table, rising_speeds
levels = {"ways": [1.0, 2.0, 3.0], "bandwidth": [1.0, 2.0, 3.0], "clock": [1.0, 2.0]}
table = make_table(rising_speeds(np.random.default_rng(0), 2, levels), [0.5, 1.0], levels)
for method in ("dna", "optimum"):
    allocator = Allocator({"a": table}, {"ways": 8, "bandwidth": 9}, 4, method=method)
    print(allocator.decide(["a"] * 4, [0.1, 0.6, 0.7, 0.2]).tolist())
"""


def test_decisions_are_the_same_without_compilation(capsys):
    exec(UNCOMPILED, {})
    assert capsys.readouterr().out.splitlines() == anew(UNCOMPILED, compiled=False)
