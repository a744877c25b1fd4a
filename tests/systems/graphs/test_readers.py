"""Files that task graphs come from, as their tools write them, and what they get wrong."""

import json

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs.dataset import edges_of
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.systems.graphs.readers import read as read_graph
from msbgen.systems.graphs.writers import ENDINGS
from msbgen.systems.graphs.writers import write as write_graph

# as WfFormat 1.5 has it: https://github.com/wfcommons/WfFormat; written for this test
KEYS = ("name", "id", "parents", "children", "inputFiles", "outputFiles")
SPECIFIED = [
    ("split", "split_1", [], ["map_1", "map_2"], ["in"], ["a", "b"]),
    ("map", "map_1", ["split_1"], ["join_1"], ["a"], ["c"]),
    ("map", "map_2", ["split_1"], [], ["a", "b"], ["d"]),
    ("ALL:JOIN (x)", "join_1", ["map_2"], [], ["c", "d"], []),
]
RAN = [
    ("split_1", 1.5, "/bin/split"),
    ("map_1", 2, "mapper"),
    ("map_2", 4, "mapper"),
    ("join_1", 0.5, "cat a\n  b"),
]
WORKFLOW = {
    "name": "toy",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [dict(zip(KEYS, task)) for task in SPECIFIED],
            "files": [
                {"id": name, "sizeInBytes": size} for name, size in zip("abcd", (10, 20, 30, 40))
            ],
        },
        "execution": {
            "makespanInSeconds": 9,
            "tasks": [
                {"id": task, "runtimeInSeconds": seconds, "command": {"program": program}}
                for task, seconds, program in RAN
            ],
        },
    },
}


def written(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def changed(document, *keys, value=None, drop=False):
    """A copy in which one place is another value, or missing."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in keys[:-1]:
        place = place[key]
    if drop:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return copy


def test_a_workflow_has_the_programs_times_and_files_of_its_trace(tmp_path):
    graph = read_graph(written(tmp_path / "w.json", WORKFLOW))
    assert graph["kind"].values.tolist() == ["split", "mapper", "mapper", "JOIN"]
    assert graph["time"].values.tolist() == [1.5, 2, 4, 0.5]
    np.testing.assert_allclose(graph["work"], [1, 2 / 3, 4 / 3, 1])
    amounts = {
        tuple(map(int, pair)): amount
        for pair, amount in zip(edges_of(graph), graph["edge_bytes"].values.tolist())
    }
    # edges that only one of their ends knows count, too
    assert amounts == {(0, 1): 10, (0, 2): 30, (1, 3): 30, (2, 3): 40}
    assert graph.attrs["name"] == "toy"


@pytest.mark.parametrize(("others", "half"), [(1.0, 0.5), (0.25, 0.005), (0.125, 0.0005)])
def test_times_below_the_clocks_step_are_half_of_it(tmp_path, others, half):
    flow = changed(WORKFLOW, *RUNS, 1, "runtimeInSeconds", value=0.0)
    for task, seconds in ((0, others), (3, 3.0)):
        flow = changed(flow, *RUNS, task, "runtimeInSeconds", value=seconds)
    graph = read_graph(written(tmp_path / "w.json", flow))
    assert graph["time"].values.tolist() == [others, half, 4, 3]
    assert graph.encoding["doubts"] == [
        f"w.json: 1 of 4 tasks took less than the clock's step of {2 * half:g} s; half of it was "
        f"taken."
    ]


FILES = ("workflow", "specification", "files")
TASKS = ("workflow", "specification", "tasks")
RUNS = ("workflow", "execution", "tasks")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("schemaVersion", {"value": "1.4"}), "'schemaVersion' is '1.4'; '1.5' is wanted"),
        (("workflow", "execution", {"drop": True}), "'workflow.execution' is missing"),
        ((*RUNS, 1, {"drop": True}), "task 'map_1' was not executed"),
        ((*RUNS, 1, "runtimeInSeconds", {"value": -1}), "'map_1': its runtimeInSeconds is -1"),
        ((*RUNS, 1, "runtimeInSeconds", {"value": "2s"}), "'runtimeInSeconds' is '2s'; a number"),
        ((*TASKS, 1, "id", {"value": "split_1"}), "task 'split_1' is there already"),
        ((*RUNS, 1, "id", {"value": "split_1"}), "task 'split_1' was executed twice"),
        ((*FILES, {"value": None}), "'files' is missing; a list"),
        ((*FILES, 1, "id", {"value": "a"}), "file 1: 'a' is there already"),
        ((*TASKS, 1, "parents", {"value": ["splt"]}), "'splt' → 'map_1' leads nowhere"),
        ((*TASKS, 0, "parents", {"value": ["join_1"]}), "in a circle: split_1 → map_"),
        ((*TASKS, {"value": []}), "there are no tasks"),
        ((*TASKS, 0, "outputFiles", {"value": [3]}), "a file of task 'split_1' is 3; a text"),
        ((*FILES, 0, {"value": {"id": "a"}}), "'sizeInBytes' is"),
    ],
)
def test_what_is_wrong_with_a_workflow(change, message, tmp_path):
    *keys, how = change
    with pytest.raises(ProfileError) as caught:
        read_graph(written(tmp_path / "w.json", changed(WORKFLOW, *keys, **how)))
    assert str(caught.value).startswith("w.json: ")
    assert message in str(caught.value)


OWN = {
    "schema": "msbgen-graph/1",
    "name": "own",
    "tasks": [{"name": "a", "kind": "gzip", "work": 0.5}, {"name": "b", "kind": "zstd", "work": 1}],
    "edges": [{"source": "a", "target": "b", "type": "spawn", "bytes": 3}],
}


def test_json_of_ours(tmp_path):
    graph = read_graph(written(tmp_path / "o.json", OWN))
    assert graph["type"].values.tolist() == ["spawn"]
    assert graph["edge_bytes"].values.tolist() == [3.0]
    # an edge that comes again counts once, and amounts are kept if all edges have one
    twice = changed(OWN, "edges", value=OWN["edges"] * 2)
    assert read_graph(written(tmp_path / "o.json", twice)).identical(graph)
    third = {"name": "c", "kind": "zstd", "work": 1}, {"source": "b", "target": "c"}
    more = {**OWN, "tasks": [*OWN["tasks"], third[0]], "edges": [*OWN["edges"], third[1]]}
    assert "edge_bytes" not in read_graph(written(tmp_path / "o.json", more))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("schema", {"value": "x"}), "'schema' is 'x'; a graph says"),
        (("tasks", 1, "name", {"value": "a"}), "task 1: task 'a' is there already, task 0"),
        (("tasks", 1, "wrk", {"value": 1}), "task 1: 'wrk' is no known key; did you mean 'work'?"),
        (("tasks", 1, "work", {"value": [1]}), "task 1: 'work' is '[1]'; a number"),
        (("tasks", 1, "work", {"drop": True}), "task 1: task 'b' has no 'work', though others"),
        (("tasks", 1, "kind", {"drop": True}), "'kind' of task 1 is missing"),
        (("edges", 0, "target", {"value": "c"}), "edge 0: the edge 'a' → 'c' leads nowhere"),
        (("edges", 0, "type", {"value": []}), "edge 0: the edge's type is '[]'"),
        (
            ("edges", {"value": [{"source": "a", "target": "b", "bytes": n} for n in (1, 1, 2)]}),
            "edge 2: the edge 'a' → 'b' is there already, edge 0, with another type or bytes",
        ),
    ],
)
def test_what_is_wrong_with_json_of_ours(change, message, tmp_path):
    *keys, how = change
    with pytest.raises(ProfileError) as caught:
        read_graph(written(tmp_path / "o.json", changed(OWN, *keys, **how)))
    assert message in str(caught.value)


def test_a_list_of_parents_with_its_tasks_in_it(tmp_path):
    text = "task,parents,kind,time [s]\na,,gzip,1\nb,a,gzip,3\nc,a b,zstd,2\n"
    graph = read_graph(written(tmp_path / "p.csv", text))
    assert edges_of(graph).tolist() == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_allclose(graph["work"], [0.5, 1.5, 1.0])


def test_a_bare_list_of_parents_and_a_table_of_tasks(tmp_path):
    bare = written(tmp_path / "p.txt", "985,885\n986,885 985\n\n")
    table = written(
        tmp_path / "t.csv", "task,kind,work\n885,gzip,1\n986,zstd,2\n985,gzip,1\n9,x,1\n"
    )
    graph = read_graph(bare, tasks=table)
    assert graph["task"].values.tolist() == ["985", "986", "885"]
    assert graph["work"].values.tolist() == [1, 2, 1]
    assert edges_of(graph).tolist() == [[2, 0], [2, 1], [0, 1]]


@pytest.mark.parametrize(
    ("text", "table", "message"),
    [
        ("b,a\n", None, "says neither kinds nor times; a table of tasks"),
        ("", None, "is empty"),
        ("b,a\nb,c\n", "task,kind,work\na,x,1\n", "line 2: task 'b' is there already, line 1"),
        ("b,a\n", "task,kind,work\na,x,1\n", "line 1: task 'b' is not in the table of tasks"),
        ("b,a\n", "task,kind,work\nb,x,1\n", "parent 'a': task 'a' is not in the table"),
        ("b,a\na,b\n", "task,kind,work\na,x,1\nb,x,1\n", "in a circle: b → a → b"),
        ("b,a\n", "task,work\na,1\n", "t.csv: column 'kind' is missing"),
        ("b,a\n", "task,kind,time [ms]\na,x,1\n", "column 'time [ms]' is no column of tasks"),
        ("b,a\n", "task,kind,work\na,x,1\na,x,1\n", "t.csv: line 3: task 'a' is there already"),
        ("task,parents,kind,work\nb,a,x,1\n", None, "line 2: the edge 'a' → 'b' leads nowhere"),
        ("task,parents,kind,work\nb,,x,fast\n", None, "line 2: 'work' is 'fast'; a number"),
        ("task,parents,kind,work\nb,,x,1\n", "task,kind\n", "says kinds itself; drop the table"),
        ("task,kind,work\nb,x,1\n", None, "column 'parents' is missing"),
    ],
)
def test_what_is_wrong_with_lists(text, table, message, tmp_path):
    path = written(tmp_path / "p.csv", text)
    tasks = None if table is None else written(tmp_path / "t.csv", table)
    with pytest.raises(ProfileError) as caught:
        read_graph(path, tasks=tasks)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.yaml", "a: 1", "ends like no graph; one of .nc, .json"),
        ("g.json", "{", "cannot be read as JSON"),
        ("g.json", "[]", "is no JSON object"),
        ("g.json", '{"name": "\\ud800"}', r"holds \ud800, half a character, in a text; correct"),
        ("g.json", '{"name": "a", "name": "b"}', "g.json: 'name' is twice in one object; drop one"),
        ("g.nc", "x", "not a netCDF file"),
        ("g.dot", "digraph", "ends in the middle"),
    ],
)
def test_files_that_are_something_else(name, content, message, tmp_path):
    with pytest.raises(ProfileError) as caught:
        read_graph(written(tmp_path / name, content))
    assert message in str(caught.value)
    with pytest.raises(ProfileError, match="no such file"):
        read_graph(tmp_path / "none.json")


def test_bytes_that_are_no_text_and_tables_nobody_asks_for(tmp_path):
    (tmp_path / "g.dot").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="cannot be read as text"):
        read_graph(tmp_path / "g.dot")
    with pytest.raises(ProfileError, match="has its tasks in it; drop the table"):
        read_graph(written(tmp_path / "o.json", OWN), tasks=tmp_path / "t.csv")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_family_survives_its_file(ending, tmp_path):
    # ".gv" is another name of ".dot"
    for name in list(FAMILIES)[:: 3 if ending in (".nc", ".gv") else 1]:
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
