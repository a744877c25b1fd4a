"""Fitted runtime predictors in netCDF files: arrays and JSON, nothing pickled."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from msbgen.core.errors import ArgumentError
from msbgen.core.parts import Sizes
from msbgen.data.models import check_fitted, load_part, save_part
from msbgen.systems.runtimes.predictor import RuntimePredictor

MODEL_SCHEMA = "msbgen-runtime-model/4"


@dataclass(frozen=True, eq=False)
class _Named:
    """A predictor with the names of its workloads and platforms."""

    workloads: tuple[str, ...]
    platforms: tuple[str, ...]
    predictor: Annotated[RuntimePredictor, Sizes(workload="workloads", platform="platforms")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored names."""
        for of in ("workloads", "platforms"):
            names = getattr(self, of)
            if len(set(names)) < len(names):
                yield of, "with a name twice", "one of distinct names"


def save(
    predictor: RuntimePredictor,
    path: str | os.PathLike[str],
    *,
    workloads: Sequence[str],
    platforms: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Write a fitted predictor, with the names of its workloads and platforms, to a netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted, or the names are not as many as its workloads and platforms.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    check_fitted(predictor, "cell_counts_")
    shape = tuple(map(len, predictor.cell_counts_))
    if (len(workloads), len(platforms)) != shape:
        raise ArgumentError(
            f"{len(workloads)} workloads and {len(platforms)} platforms are named; {shape[0]} and "
            f"{shape[1]} are wanted."
        )
    named = _Named(tuple(workloads), tuple(platforms), predictor)
    save_part(named, path, schema=MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> tuple[RuntimePredictor, list[str], list[str]]:
    """Predictor that :func:`save` wrote, and the names of its workloads and platforms.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    named = load_part(_Named, path, schema=MODEL_SCHEMA, what="runtimes")
    return named.predictor, list(named.workloads), list(named.platforms)
