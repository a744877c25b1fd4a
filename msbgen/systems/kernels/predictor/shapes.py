"""Work of kernels, as arrays: operations, bytes, and the equivalent matrix product.

A convolution is a product of (positions × filters) over a window (im2col).  The work of a kernel of
an unknown kind with the parameters m, k and n is that of a matrix product; of any other, it is the
product of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.dataset import parameter_names, parameter_table
from msbgen.systems.kernels.kinds import KINDS, Point, out_sides, works_of

Floats = NDArray[np.float64]

_FLOAT = 4.0  # bytes
# Products and reciprocals of smaller sizes would overflow.
_LEAST_SIZE = 1e-15
# Sides of the tiles that libraries split products into: up to 128 on GPUs, 16 on CPUs.
_TILES = ((16, 16), (32, 32), (64, 64), (128, 64), (128, 128))
# Tiles that run at once: one, or one or two on each of the eight processors of an AGX Xavier.  A
# last wave that is not full takes as long as a full one.  On other chips the coefficients are 0.
_UNITS = (1, 8, 16)
# Sides of a matrix product of an unknown kind: (m, k) × (k, n).
_SIDES = ("m", "n", "k")
# Columns with a larger correlation are duplicates.
_SAME = 0.9999


@dataclass(frozen=True)
class ShapeColumns:
    """Numbers of columns of the works, logarithms and parameters of shapes."""

    works: int
    logs: int
    raw: int

    @classmethod
    def of(cls, kind: str, share: Mapping[str, float]) -> ShapeColumns:
        """Those of a kind, given the share of its measurements that have each parameter."""
        sides = {"matmul": [KINDS["matmul"]], "conv2d": [KINDS["conv2d"]]}
        sides["gemm"] = [("rows", "columns"), _SIDES]
        alternatives = sides.get(kind, [] if kind in KINDS else [_SIDES])
        product = any(all(share.get(side) == 1 for side in given) for given in alternatives)
        if product:
            return cls(5 + len(_TILES) * len(_UNITS), 6, len(share))
        return cls(3, 3, len(share))


@dataclass(frozen=True, eq=False)
class Shapes:
    """Work of n kernels.

    Operations and bytes are positive. The sides m, n and k of the matrix product are ones for
    kernels that are none. `raw` has the parameters, (n, n_parameters), 0 where missing.
    """

    flops: Floats
    touched: Floats
    m: Floats
    n: Floats
    k: Floats
    product: NDArray[np.bool_]
    raw: Floats

    def some(self, rows: NDArray[np.int64]) -> Shapes:
        """Some of the kernels."""
        sides = self.m[rows], self.n[rows], self.k[rows]
        work = self.flops[rows], self.touched[rows]
        return Shapes(*work, *sides, self.product[rows], self.raw[rows])

    def works(self) -> Floats:
        """Terms of time, (n, d): a launch, operations, bytes; of products depth, output, tiles."""
        columns = [np.ones_like(self.flops), self.flops, self.touched]
        if self.product.any():
            columns += [self.k, self.m * self.n]
            columns += [self._padded(a, b, units) for a, b in _TILES for units in _UNITS]
        return np.stack(columns, axis=1)

    def logs(self) -> Floats:
        """Logarithms that are features of the residual, (n, d)."""
        columns = [self.flops, self.touched, self.flops / self.touched]
        if self.product.any():
            columns += [self.flops / self._padded(128, 128, 1), self.m / self.n, self.k]
        return np.log(np.stack(columns, axis=1))

    def _padded(self, a: int, b: int, units: int) -> Floats:
        """Operations of whole tiles of a × b, in whole waves of so many units."""
        tiles = np.ceil(self.m / a) * np.ceil(self.n / b)
        each = np.where(self.product, self.flops / (self.m * self.n), 0.0)
        return np.ceil(tiles / units) * units * a * b * each + np.where(each > 0, 0.0, self.flops)


def shapes_of(dataset: xr.Dataset, columns: tuple[str, ...] = ()) -> Shapes:
    """Work of every measurement or launch.

    `columns` are the parameters of :attr:`Shapes.raw`, by default those of the dataset. A kernel of
    size 0, or one that lacks parameters of its kind, raises :class:`ArgumentError`.
    """
    names = parameter_names(dataset)
    table = parameter_table(dataset)
    flops, touched = works_of(dataset)
    n = len(flops)
    m, wide, deep = np.ones(n), np.ones(n), np.ones(n)
    product = np.zeros(n, dtype=bool)
    kinds = dataset["kind"].values.astype(str)
    if np.any((table > 0) & (table < _LEAST_SIZE)):
        i, j = np.argwhere((table > 0) & (table < _LEAST_SIZE))[0]
        raise ArgumentError(
            f"kernel {i}, a {kinds[i]}, has {names[j]} {table[i, j]:g}; 0, or a number from "
            f"{_LEAST_SIZE:g} on, is wanted."
        )
    sides: dict[tuple[object, ...], tuple[float, float, float]] = {}
    for i, (word, row) in enumerate(zip(kinds, table)):
        given = dict(zip(names, row.tolist()))
        if (
            word == "gemm"
            and not np.isnan([given.get(s, np.nan) for s in ("rows", "columns")]).any()
        ):
            product[i] = True
            m[i], wide[i], deep[i] = given["rows"], given["rows"], given["columns"]
            flops[i] = 2.0 * m[i] * wide[i] * deep[i]
            touched[i] = _FLOAT * (2.0 * m[i] * deep[i] + m[i] * wide[i])
        elif np.isfinite(flops[i]) and word in ("matmul", "conv2d"):
            key = (word, *row.tolist())
            if key not in sides:
                sides[key] = _product(Point.of(word, **{p: given[p] for p in KINDS[word]}))
            m[i], wide[i], deep[i] = sides[key]
            product[i] = True
        elif word not in KINDS and not np.isnan([given.get(s, np.nan) for s in _SIDES]).any():
            product[i] = True
            m[i], wide[i], deep[i] = (given[s] for s in _SIDES)
            flops[i] = 2.0 * m[i] * wide[i] * deep[i]
            touched[i] = _FLOAT * (m[i] * deep[i] + deep[i] * wide[i] + m[i] * wide[i])
        elif not np.isfinite(flops[i]):
            flops[i] = touched[i] = np.nanprod(np.where(row > 0, row, np.nan))
    order = [names.index(name) if name in names else -1 for name in columns or names]
    filled = np.column_stack([np.nan_to_num(table), np.zeros(n)])
    # comparisons and copies have no operations: count one for each byte
    flops = np.where(flops > 0, flops, touched)
    _check_work(kinds, product, flops > 0)
    raw = filled[:, order] if order else np.empty((n, 0))
    return Shapes(flops, touched, m, wide, deep, product, raw)


def unknown_kinds(dataset: xr.Dataset) -> list[str]:
    """Kinds with parameters whose operations and bytes are unknown, in the dataset's order.

    A program without parameters is no kernel, and a product that lacks its bias only is known by
    its sides: neither is among them.
    """
    words, sides = dataset["kind"].values.astype(str), dataset.data_vars.keys() >= {*_SIDES}
    known = np.isfinite(works_of(dataset)[0]) | shapes_of(dataset).product
    if sides:
        known |= (words == "matmul") & np.isfinite([dataset[s].values for s in _SIDES]).all(axis=0)
    table = parameter_table(dataset)
    rows = np.flatnonzero(np.isfinite(table).any(axis=1) & ~known)
    return list(dict.fromkeys(words[rows].tolist()))


def _check_work(
    kinds: NDArray[np.str_], product: NDArray[np.bool_], does: NDArray[np.bool_]
) -> None:
    if not does.all():
        at = int(np.argmin(does))
        raise ArgumentError(f"kernel {at}, a {kinds[at]}, has a size of 0; 1 or more is wanted.")
    for kind in np.unique(kinds[product]):
        bare = (kinds == kind) & ~product
        if bare.any():
            raise ArgumentError(
                f"kernel {int(np.argmax(bare))}, a {kind}, lacks a parameter that others of its "
                f"kind have; give each all of them."
            )


def _product(point: Point) -> tuple[float, float, float]:
    """Rows, columns and depth of the equivalent matrix product."""
    p = point.parameters
    if point.kind == "matmul":
        return float(p["m"]), float(p["n"]), float(p["k"])
    high, wide = out_sides(point)
    window = p["channels"] // p["groups"] * p["kernel_height"] * p["kernel_width"]
    each = max(p["filters"] // p["groups"], 1)
    return float(p["batch"] * high * wide * p["groups"]), float(each), float(window)


def distinct_columns(table: Floats) -> NDArray[np.int64]:
    """Numbers of columns that vary and are no linear function of an earlier one."""
    kept: list[int] = []
    centred = table - table.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    for j in range(table.shape[1]):
        if size[j] <= 1e-9 * max(1.0, float(np.abs(table[:, j]).max())) * np.sqrt(len(table)):
            continue
        if any(abs(centred[:, j] @ centred[:, i]) > _SAME * size[i] * size[j] for i in kept):
            continue
        kept.append(j)
    return np.array(kept, dtype=np.int64)
