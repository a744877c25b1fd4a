"""What is written is read back, whole, from every sort of file."""

import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.graphs.readers import read as read_graph
from msbgen.graphs.writers import ENDINGS
from msbgen.graphs.writers import write as write_graph


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_family_survives_its_file(ending, tmp_path):
    for name in list(FAMILIES)[:: 3 if ending == ".nc" else 1]:
        graph = family_graph(name, FAMILIES[name].sizes[0])
        write_graph(graph, tmp_path / f"{name}{ending}")
        xr.testing.assert_identical(read_graph(tmp_path / f"{name}{ending}"), graph)


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_numbers_are_kept_to_the_last_digit(ending, tmp_path):
    graph = make_graph(
        ['a "b"', "ü"],
        [0.1, 1 / 3],
        [(1, 0)],
        names=["x\\", "node"],
        types=["spawn"],
        edge_bytes=[1e9 / 7],
        name="two words",
        time=[1e-5 / 3, 2.0],
        bcet=[1e-6, 1.0],
        wcet=[1.0, 2.0],
        loops=[0, 3],
        bytes=[1e12, 0],
        branch_entropy=[0.1, 0.9],
    )
    write_graph(graph, tmp_path / f"g{ending}")
    xr.testing.assert_identical(read_graph(tmp_path / f"g{ending}"), graph)
    with pytest.raises(FileExistsError):
        write_graph(graph, tmp_path / f"g{ending}")
    write_graph(graph, tmp_path / f"g{ending}", overwrite=True)


def test_other_names_and_what_is_no_graph_are_refused(tmp_path):
    graph = make_graph(["a"], [1.0], [])
    with pytest.raises(ArgumentError, match=r"path is g\.txt; a name that ends with \.nc"):
        write_graph(graph, tmp_path / "g.txt")
    with pytest.raises(ProfileError):
        write_graph(graph.drop_vars("kind"), tmp_path / "g.json")
    assert not list(tmp_path.iterdir())
