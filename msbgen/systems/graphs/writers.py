"""Writers of task graphs: netCDF, JSON, DOT."""

import json
import os
from typing import Any

import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.data.files import path_of, replace_file
from msbgen.systems.graphs.dataset import GRAPH_SCHEMA, SCHEMA, TASK_NUMBERS, edges_of
from msbgen.systems.graphs.dot import dot_lines

# Endings of the formats that can be written.
ENDINGS = (".nc", ".json", ".dot", ".gv")


def write(graph: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a graph in the format of the ending of the file: .nc, .json, .dot, .gv.

    Reading the file gives the same graph.  Nothing is left of a file that could not be written.

    Raises
    ------
    ArgumentError
        Another ending.
    ProfileError
        The dataset is not a valid graph.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    path = path_of(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ArgumentError(
            f"path is {path.name}; a name that ends with {', '.join(ENDINGS)} is wanted."
        )
    SCHEMA.validate(graph, path.name)
    if ending == ".nc":
        SCHEMA.write(graph, path, overwrite=overwrite)
        return
    text = graph_json(graph) if ending == ".json" else "\n".join(dot_lines(graph)) + "\n"
    with replace_file(path, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8")


def graph_json(graph: xr.Dataset) -> str:
    """A valid graph as JSON."""
    names = graph["task"].values.astype(str).tolist()
    kept = ["kind", "work", *(key for key in TASK_NUMBERS if key in graph)]
    columns = {"name": names, **{key: graph[key].values.tolist() for key in kept}}
    tasks = [dict(zip(columns, values)) for values in zip(*columns.values())]
    types = graph["type"].values.tolist()
    edges: list[dict[str, Any]] = [
        {"source": names[source], "target": names[target], "type": kind}
        for (source, target), kind in zip(edges_of(graph).tolist(), types)
    ]
    if "edge_bytes" in graph:
        for edge, amount in zip(edges, graph["edge_bytes"].values.tolist()):
            edge["bytes"] = amount
    document = {
        "schema": GRAPH_SCHEMA,
        "name": str(graph.attrs.get("name", "")),
        "family": str(graph.attrs.get("family", "")),
        "tasks": tasks,
        "edges": edges,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
