"""Kernels beside plain Python: the next job of a tree, and what runs without compilation."""

from itertools import product

import pytest

from forks import anew
from machines import made_queue
from msbgen.machines import queue
from msbgen.machines.queue import _kernels

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
