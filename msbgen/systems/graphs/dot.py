"""Reader and writer of DOT, the language of Graphviz: directed graphs of tasks.

The reader supports the whole grammar: attributes of nodes and edges and their defaults, chains,
subgraphs, concatenated strings, HTML strings, comments, keywords in any case.  Attributes of a node
are those of a task (``kind``, ``work``, ``time``...); others (``label``, ``shape``...) are ignored.

The parser is our own: pydot 4 gives no line of a node for messages, does not apply defaults,
and turns ``--`` in a directed graph into ``->`` without an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import xarray as xr

from msbgen.systems.graphs.dataset import EDGE_TYPES, TASK_NUMBERS, edges_of
from msbgen.systems.graphs.records import NUMBERS, GraphEdge, GraphRecords, GraphTask, shown

_TOKENS = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|(?<![^\n])\#[^\n]*)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<arrow>->|--)
    |(?P<sign>[{}\[\]=;,:+])
    |(?P<word>-?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?(?![\w.])|[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_WORDS = ("graph", "node", "edge", "digraph", "subgraph", "strict")
_KEYS = ("kind", *NUMBERS)
# Attributes at least this similar to those of tasks count as mistyped.
_NEAR = 0.75
# Most levels of nested subgraphs, and most edges that edges between subgraphs make.
_DEEPEST, _MOST_EDGES = 100, 1_000_000


@dataclass
class _Token:
    kind: str
    value: str
    line: int


@dataclass
class _Scope:
    """Default attributes in a subgraph."""

    node: dict[str, str] = field(default_factory=dict)
    edge: dict[str, str] = field(default_factory=dict)


def read_dot(text: str, source: str) -> GraphRecords:
    """Tasks and edges of a directed graph in DOT; errors name the line."""
    return _Parser(text, GraphRecords(source)).read()


class _Parser:
    def __init__(self, text: str, records: GraphRecords):
        self.records = records
        self._tokens = list(_tokens(text, records))
        self._at = self._made = 0
        self._nodes: dict[str, tuple[dict[str, str], int]] = {}
        self._graph_attributes: dict[str, str] = {}

    def read(self) -> GraphRecords:
        if self._see("strict"):
            self._next()
        word = self._next()
        if word.value != "digraph":
            raise self._error(word, "'digraph' is wanted (edges of tasks have a direction)")
        if not self._see("{"):
            self.records.name = self._name()
        self._take("{")
        self._statements(_Scope(), 0)
        if self._at < len(self._tokens):
            raise self._error(self._tokens[self._at], "nothing more is wanted after the graph")
        self.records.name = self._graph_attributes.get("name", self.records.name)
        self.records.family = self._graph_attributes.get("family", "")
        for name, (attributes, line) in self._nodes.items():
            place = f"line {line}"
            if not attributes.get("kind", "").strip():
                hint = " (its label is for drawings)" if "label" in attributes else ""
                raise self.records.error(
                    f"{place}: node '{shown(name)}' has no 'kind'{hint}; that of its profile is "
                    f"wanted, as {_quoted(shown(name))} [kind=gzip, work=1]"
                )
            self._check_keys(attributes, f"{place}: node '{shown(name)}'")
            numbers = {
                key: self.records.number(attributes[key], key, place)
                for key in NUMBERS
                if key in attributes
            }
            self.records.tasks.append(GraphTask(name, attributes["kind"], numbers, place))
        return self.records

    def _check_keys(self, attributes: dict[str, str], place: str) -> None:
        """Check for mistyped attributes of tasks; all others are for drawings."""
        import difflib

        for key in attributes:
            near = difflib.get_close_matches(key, _KEYS, 1, _NEAR)
            if near and key not in _KEYS:
                raise self.records.error(
                    f"{place} has '{shown(key)}', which is for no task; did you mean '{near[0]}'?"
                )

    def _statements(self, scope: _Scope, depth: int) -> list[str]:
        """Parse statements up to a closing brace; returns the names of their nodes."""
        if depth > _DEEPEST:
            raise self._error(self._tokens[self._at - 1], "fewer braces inside braces are wanted")
        nodes: list[str] = []
        while not self._see("}"):
            if self._see(";"):
                self._next()
                continue
            token = self._peek()
            if token.kind == "word" and token.value in ("graph", "node", "edge"):
                self._next()
                attributes = self._attributes()
                if token.value == "graph":
                    self._set_attributes(attributes, depth)
                    continue
                # each node or edge gets a copy, so that those for drawings are left out
                used = (*_KEYS, "label") if token.value == "node" else ("type", "bytes")
                kept = {key: value for key, value in attributes.items() if key in used}
                getattr(scope, token.value).update(kept)
                if token.value == "node":
                    self._check_keys(attributes, f"line {token.line}: 'node'")
                continue
            nodes += self._statement(scope, depth)
        self._take("}")
        return nodes

    def _statement(self, scope: _Scope, depth: int) -> list[str]:
        """Parse a node, a chain of edges, a subgraph, or an attribute of the graph."""
        first = self._peek()
        if first.kind in ("word", "text") and self._see("=", 1):
            name = self._name()
            self._take("=")
            self._set_attributes({name: self._name()}, depth)
            return []
        ends, group = self._end(scope, depth)
        chain = [ends]
        while self._at < len(self._tokens) and self._peek().kind == "arrow":
            arrow = self._next()
            if arrow.value == "--":
                raise self._error(arrow, "'->' is wanted (edges of tasks have a direction)")
            chain.append(self._end(scope, depth)[0])
        attributes = self._attributes() if self._see("[") else {}
        if len(chain) == 1:
            if not group:
                node_attributes = self._nodes[ends[0]][0]
                node_attributes.update(attributes)
                self._nodes[ends[0]] = node_attributes, first.line  # rather than an edge before it
            return ends
        attributes = {**scope.edge, **attributes}
        place = f"line {first.line}"
        kind = self.records.edge_type(attributes.get("type", EDGE_TYPES[-1]), place)
        amount = (
            self.records.number(attributes["bytes"], "bytes", place)
            if "bytes" in attributes
            else None
        )
        for sources, targets in pairwise(chain):
            if len(sources) * len(targets) > 1:
                self._made += len(sources) * len(targets)
            if self._made > _MOST_EDGES:
                raise self._error(first, "subgraphs with fewer edges between them are wanted")
            self.records.edges += [
                GraphEdge(source, target, place, kind, amount)
                for source in sources
                for target in targets
            ]
        return [name for part in chain for name in part]

    def _end(self, scope: _Scope, depth: int) -> tuple[list[str], bool]:
        """Parse one node or a subgraph; returns its nodes, and whether it is a subgraph."""
        if self._see("subgraph"):
            self._next()
            if not self._see("{"):
                self._name()
        if self._see("{"):
            self._next()
            inner = _Scope(dict(scope.node), dict(scope.edge))
            return self._statements(inner, depth + 1), True
        line = self._peek().line
        name = self._name()
        while self._see(":"):  # a port, which only drawings need
            self._next()
            self._name()
        self._nodes.setdefault(name, (dict(scope.node), line))
        return [name], False

    def _set_attributes(self, attributes: dict[str, str], depth: int) -> None:
        if depth == 0:
            self._graph_attributes.update(attributes)

    def _attributes(self) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while self._see("["):
            self._next()
            while not self._see("]"):
                name = self._name()
                self._take("=")
                attributes[name] = self._name()
                if self._see(",") or self._see(";"):
                    self._next()
            self._take("]")
        return attributes

    def _name(self) -> str:
        token = self._next()
        if token.kind == "html":
            return token.value[1:-1]
        if token.kind == "text":
            text = self._text(token)
            while self._see("+"):
                self._next()
                token = self._next()
                if token.kind != "text":
                    raise self._error(token, "a text is wanted after '+'")
                text += self._text(token)
            return text
        if token.kind != "word" or token.value in _WORDS:
            raise self._error(token, "a name is wanted")
        return token.value

    @staticmethod
    def _text(token: _Token) -> str:
        """The text between quotes, unescaped."""
        return re.sub(r'\\(["\\])', r"\1", token.value[1:-1].replace("\\\n", ""))

    def _see(self, value: str, ahead: int = 0) -> bool:
        if self._at + ahead >= len(self._tokens):
            return False
        token = self._tokens[self._at + ahead]
        return token.kind != "text" and token.value == value

    def _peek(self) -> _Token:
        if self._at >= len(self._tokens):
            raise self.records.error("ends in the middle of the graph; write it to its end")
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, value: str) -> None:
        token = self._next()
        if token.kind == "text" or token.value != value:
            raise self._error(token, f"'{value}' is wanted")

    def _error(self, token: _Token, wanted: str) -> Exception:
        return self.records.error(
            f"line {token.line}: '{shown(token.value)}' stands where {wanted}"
        )


def _tokens(text: str, records: GraphRecords) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKENS.match(text, at)
        if text[at] == "<":
            end = _end_of_html(text, at)
            if end is None:
                raise records.error(f"line {line}: '<' is never closed; '>' is wanted")
            yield _Token("html", text[at:end], line)
            line += text.count("\n", at, end)
            at = end
            continue
        if not match:
            raise records.error(f"line {line}: {shown(text[at : at + 10])!r} is no DOT; correct it")
        if match.lastgroup != "space":
            # keywords are case-insensitive, names are not
            word = match.lastgroup == "word" and match[0].lower() in _WORDS
            yield _Token(str(match.lastgroup), match[0].lower() if word else match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _end_of_html(text: str, at: int) -> int | None:
    """End of the bracket that opens here; None if it is never closed."""
    depth = 0
    for bracket in re.compile("[<>]").finditer(text, at):
        depth += 1 if bracket[0] == "<" else -1
        if not depth:
            return bracket.end()
    return None


# --------------------------------------------------------------------------- writer


def dot_lines(graph: xr.Dataset) -> Iterator[str]:
    """Lines of a valid graph in DOT; :func:`read_dot` reads the same graph back."""
    names = graph["task"].values.astype(str).tolist()
    numbers = ["work", *(key for key in TASK_NUMBERS if key in graph)]
    arrays = {key: graph[key].values.tolist() for key in ("kind", *numbers)}
    yield f"digraph {_quoted(str(graph.attrs.get('name', 'graph')))} {{"
    if graph.attrs.get("family"):
        yield f"  family={_quoted(str(graph.attrs['family']))};"
    for i, name in enumerate(names):
        attributes = [f"kind={_quoted(str(arrays['kind'][i]))}"]
        attributes += [f"{key}={arrays[key][i]!r}" for key in numbers]
        yield f"  {_quoted(name)} [{', '.join(attributes)}];"
    types = graph["type"].values.astype(str)
    amounts = graph["edge_bytes"].values.tolist() if "edge_bytes" in graph else None
    for i, (source, target) in enumerate(edges_of(graph).tolist()):
        amount = "" if amounts is None else f", bytes={amounts[i]!r}"
        yield f"  {_quoted(names[source])} -> {_quoted(names[target])} [type={types[i]}{amount}];"
    yield "}"


def _quoted(name: str) -> str:
    if _PLAIN.match(name) and name.lower() not in _WORDS:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
