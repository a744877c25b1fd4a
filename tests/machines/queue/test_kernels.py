"""Kernels beside plain Python: the next job of a tree, and what runs without compilation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forks import anew
from machines import made_queue
from msbgen.machines import queue
from msbgen.machines.queue import _kernels

JOB = st.tuples(st.integers(1, 5), st.integers(1, 5), st.booleans())


@given(st.lists(JOB, min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 5),
       st.integers(-2, 5), st.integers(0, 6))  # fmt: skip
def test_the_next_job_of_a_tree_is_that_of_a_scan(jobs, first, free, extra, until):
    leaves = 2 ** int(np.ceil(np.log2(len(jobs))))
    tree = np.full((2 * leaves, 3), np.inf)
    tree[:, _kernels.WORK] = 0.0
    for number, (nodes, estimate, _) in enumerate(jobs):
        _kernels.put(tree, number, nodes, float(estimate))
    for number, (_, _, gone) in enumerate(jobs):
        if gone:
            _kernels.take(tree, number)
    wanted = [
        number
        for number, (nodes, estimate, gone) in enumerate(jobs)
        if number >= first
        and not gone
        and nodes <= free
        and (1.0 + estimate <= until or nodes <= extra)
    ]
    found = _kernels.next_job(tree, first, free, extra, 1.0, float(until))
    assert found == (wanted[0] if wanted else leaves)
    left = sum(nodes * estimate for nodes, estimate, gone in jobs if not gone)
    assert tree[1, _kernels.WORK] == left


UNCOMPILED = """
import numpy as np
from machines import made_queue
from msbgen.machines import queue
jobs, machines = made_queue(11)
for placement in queue.PLACEMENTS:
    for form in queue.QUEUES:
        found = queue.simulate_queue(jobs, machines, placement=placement, queue=form)
        print(found.start.tolist(), found.machine.tolist())
"""


def test_starts_are_the_same_without_compilation(capsys):
    exec(UNCOMPILED, {})
    assert capsys.readouterr().out.splitlines() == anew(UNCOMPILED, compiled=False)


@pytest.mark.skipif(
    not hasattr(_kernels.simulate_queues, "signatures"), reason="nothing is compiled"
)
def test_no_kernel_is_compiled_twice():
    """Layouts of arrays are part of what is compiled, and this takes ten seconds."""
    jobs, machines = made_queue(3)
    for placement, form in product(queue.PLACEMENTS, queue.QUEUES):
        queue.simulate_queue(jobs, machines, placement=placement, queue=form)
    assert len(_kernels.simulate_queues.signatures) == 1
