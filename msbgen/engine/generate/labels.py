"""Labels of a model file: its JSON part, checked when it is read."""

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy as np

from msbgen.core.arrays import StoredArrays
from msbgen.engine.faults.findings import Findings


def stored_labels(
    stored: StoredArrays, text: object, distributions: Collection[str]
) -> dict[str, Any]:
    """Labels of a model file from their JSON text; ProfileError where one is missing or wrong."""
    labels: Any = None
    if isinstance(text, str):
        with suppress(json.JSONDecodeError, RecursionError):
            labels = json.loads(text)
    stored.want(isinstance(labels, dict), "attribute 'labels'", text, "a JSON object")
    for name in ("resources", "counters", "attrs", "distribution", "kind"):
        wanted, words = (str, "text") if name == "kind" else (dict, "an object")
        stored.want(
            isinstance(labels.get(name), wanted), f"label '{name}'", labels.get(name), words
        )
    stored.want(
        labels["kind"] in distributions,
        "label 'kind'",
        labels["kind"],
        f"{', '.join(distributions)}",
    )
    tables = {"attrs": labels["attrs"]}
    for name in ("resources", "counters"):
        stored.want(len(labels[name]) > 0, f"label '{name}'", "empty", "one or more")
        tables.update({f"{name}: {key}": attrs for key, attrs in labels[name].items()})
    for name, table in tables.items():
        stored.want(isinstance(table, dict), f"label '{name}'", table, "an object")
        for key, value in table.items():
            parts = value if isinstance(value, list) else [value]
            kinds = {type(part) for part in parts} - {str, int, float}
            stored.want(
                not kinds and len(parts) > 0,
                f"'{key}' of '{name}'",
                value,
                "a number, text or list",
            )
    return labels


def stored_findings(stored: StoredArrays, plain: Any) -> Findings:
    """Faults of the measurements, from a model file."""
    try:
        return Findings.from_plain(plain)
    except (KeyError, TypeError, ValueError):
        stored.want(False, "label 'findings'", plain, "a list of faults")
        raise


def plain(value: Any) -> Any:
    """Attribute of a type that JSON has."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
