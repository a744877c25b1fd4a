"""DOT: what Graphviz's own grammar allows is read, what is no program is refused with its line."""

import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import small_graphs
from msbgen.core.errors import ProfileError
from msbgen.systems.graphs.dataset import edges_of
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.dot import dot_lines, read_dot


def graph_of(text):
    return read_dot(text, "g.dot").graph()


def ends(graph):
    names = graph["task"].values
    return {(str(names[s]), str(names[t])) for s, t in edges_of(graph)}


def test_chains_groups_defaults_comments_and_ports():
    graph = graph_of("""
# a line of a preprocessor
/* several
   lines */ strict digraph "my \\"program\\"" {
  rankdir = LR; family=toy  // how it is drawn
  graph [label="x"]; node [kind=gzip, work=0.5, shape=box]
  a -> {b; "c d"} -> e:port:n [type=join, bytes=8];
  subgraph cluster_0 { node [kind=zstd]; f; f -> g [type=spawn] }
  e -> f; h [work=.25];
}
""")
    assert ends(graph) == {
        ("a", "b"),
        ("a", "c d"),
        ("b", "e"),
        ("c d", "e"),
        ("f", "g"),
        ("e", "f"),
    }
    kinds = dict(zip(graph["task"].values.tolist(), graph["kind"].values.tolist()))
    assert kinds == {**dict.fromkeys(["a", "b", "c d", "e", "h"], "gzip"), "f": "zstd", "g": "zstd"}
    assert graph.attrs["name"] == 'my "program"'
    assert graph.attrs["family"] == "toy"
    assert float(graph["work"][-1]) == 0.25
    types = dict(zip(sorted(ends(graph)), ["join"] * 2 + ["join"] * 2 + ["data", "spawn"]))
    names = graph["task"].values
    for (s, t), kind in zip(edges_of(graph), graph["type"].values):
        assert types[str(names[s]), str(names[t])] == kind


def test_words_in_any_case_joined_texts_and_html():
    graph = graph_of("""STRICT DiGraph {
        NODE [kind="gz" + "ip", work=1, label=<<b>x</b>
        and more>]; Edges -> "Node" }""")
    assert ends(graph) == {("Edges", "Node")}
    assert set(graph["kind"].values.tolist()) == {"gzip"}
    for text, message in (
        ("digraph {\n a [label=<<b>x</b>] }", "g.dot: line 2: '<' is never closed"),
        ('digraph { a [kind="x" + y] }', "'y' stands where a text is wanted after '\\+'"),
        ("digraph { Node -> a }", "'->' stands where"),
    ):
        with pytest.raises(ProfileError, match=message):
            graph_of(text)


@given(small_graphs(), st.data())
@settings(max_examples=25)
def test_what_is_written_is_read_back(drawn, data):
    n, edges, works = drawn
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
    names = data.draw(st.lists(text, min_size=n, max_size=n, unique=True))
    kinds = data.draw(st.lists(text.filter(str.strip), min_size=n, max_size=n))
    types = data.draw(st.lists(st.sampled_from(["spawn", "join", "data"]), min_size=len(edges)))
    graph = make_graph(
        kinds,
        works,
        edges,
        names=names,
        types=types[: len(edges)],
        time=[w / 3 for w in works],
        edge_bytes=[0.1] * len(edges) or None,
        name=names[0],
        family=kinds[0],
    )
    back = graph_of("\n".join(dot_lines(graph)))
    xr.testing.assert_identical(back, graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph { a -- b }", "line 1: 'graph' stands where 'digraph' is wanted"),
        ("digraph {\n a -- b }", "line 2: '--' stands where '->' is wanted"),
        ("digraph {\n a -> b", "ends in the middle of the graph"),
        ("digraph {\n\n a -> b }", "line 3: node 'a' has no 'kind'"),
        ("digraph { a [kind=k,work=1]\n a -> b\n b [work=1] }", "line 3: node 'b' has no 'kind'"),
        (
            'digraph {\n a [label="gzip"] }',
            "line 2: node 'a' has no 'kind' (its label is for drawings); that of its profile is "
            "wanted, as a [kind=gzip, work=1]",
        ),
        (
            "digraph {\n a [kind=k, wokr=1] }",
            "line 2: node 'a' has 'wokr', which is for no task; did you mean 'work'?",
        ),
        ("digraph { a [kind=x, work=y] }", "line 1: 'work' is 'y'; a number"),
        ('digraph { a [kind=x, work="1_000"] }', "line 1: 'work' is '1_000'; a number"),
        ('digraph { a [kind=x, work="\uff11"] }', "line 1: 'work' is '\uff11'; a number"),
        ("digraph { a -> b\na [kind=x, work=1e308]; b [kind=x, work=1e308] }", "a positive number"),
        ("digraph { a [kind] }", "line 1: ']' stands where '=' is wanted"),
        ("digraph { a [kind=x,work=1] } digraph {}", "nothing more is wanted"),
        ("digraph { -> a }", "'->' stands where a name is wanted"),
        ("digraph { node [wokr=1] }", "line 1: 'node' has 'wokr', which is for no task"),
        (
            f"digraph {{ {{{' '.join(f'a{i}' for i in range(1001))}}} -> {{{'b ' * 1000}}} }}",
            "'{' stands where subgraphs with fewer edges between them are wanted",
        ),
        ("digraph {" + "{" * 300 + "}" * 301, "fewer braces inside braces"),
    ],
)
def test_errors_of_dot_name_the_line(text, message):
    with pytest.raises(ProfileError) as caught:
        graph_of(text)
    assert str(caught.value).startswith("g.dot: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
