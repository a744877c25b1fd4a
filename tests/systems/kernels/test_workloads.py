import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.workloads import make_workload


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        ([-1], "count is -1; a whole number from 1 to 1000000000 each is wanted"),
        ([0], "count is 0; a whole number"),
        ([1.5], "count is 1.5; a whole number"),
        ([2e9], "count is 2000000000; a whole number"),
        (["1"], "count is .'1'.; numbers are wanted"),
        ([], "kernels are none; a whole number"),
    ],
)
def test_counts_that_no_network_has_are_refused(count, sentence):
    with pytest.raises(ArgumentError, match=f"^{sentence}"):
        make_workload(["gemm"] * len(count), count)


def test_whole_counts_may_be_of_any_type():
    assert make_workload(["gemm"] * 2, [1.0, 2.0])["count"].values.tolist() == [1, 2]
