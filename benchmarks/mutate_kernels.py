"""Originals and checks of :mod:`mutate` for kernels, their models, launches and choices."""

from pathlib import Path

import numpy as np
import xarray as xr

from msbgen.kernels.dataset import make as make_kernels
from msbgen.kernels.dataset import runtimes_of
from msbgen.kernels.dataset import validate as validate_kernels
from msbgen.kernels.dataset import write as write_kernels
from msbgen.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.kernels.predictor.storage import save
from msbgen.kernels.workloads import make_workload, write_workload

CLOCKS = np.array([300.0, 600.0, 900.0])  # [MHz]
FIT = ("kernels", "fit", "IN", "--folds", "2", "-o", "m.nc")
EVALUATE = ("kernels", "evaluate", "IN", "--folds", "2", "-o", "p.csv")
IMPORT = ("-o", "k.nc")
# Original, verb and output.
VERBS = (
    ("kernels.nc", FIT, "m.nc"),
    ("kernels.nc", EVALUATE, "p.csv"),
    ("kernels.csv", ("kernels", "import", "IN", "--columns", "map.toml", *IMPORT), "k.nc"),
    ("map.toml", ("kernels", "import", "kernels.csv", "--columns", "IN", *IMPORT), "k.nc"),
    *(
        (
            name,
            ("kernels", "predict", model, "--workload", launches, "--network", "n", "-o", "p.csv"),
            "p.csv",
        )
        for name, model, launches in (
            ("model-kernels.nc", "IN", "launches.csv"),
            ("launches.csv", "model-kernels.nc", "IN"),
            ("launches.nc", "model-kernels.nc", "IN"),
        )
    ),
    *(
        (name, ("kernels", "choose", "IN", "--miscoverage", "0.4", "-o", "p.csv", *more), "p.csv")
        for name, more in (
            ("costs.nc", ()),
            ("costs.nc", ("--objective", "front", "--latency", "1h")),
            ("costs.nc", ("--program", "p0", "--probes", "1")),
            ("costs.csv", ("--resources", "clock", "--objective", "edp")),
        )
    ),
)


def make_originals(folder: Path) -> None:
    """Write kernels, a model of them, launches, and programs to choose for."""
    m, clock = (
        x.ravel().astype(float)
        for x in np.meshgrid([32, 48, 64, 96, 128, 192], CLOCKS, indexing="ij")
    )
    work = m**3 / (2.6e8 * clock)
    seconds = 5e-6 + 1e-3 / (clock * 1e3) + work
    watts = 8 + 20 * work / seconds * (clock / 900) ** 2.5
    runs = make_kernels(
        ["matmul"] * len(m), seconds, power=watts, parameters={"m": m, "k": m, "n": m},
        resources={"clock": clock}, units={"clock": "MHz"},
    )  # fmt: skip
    write_kernels(runs, folder / "kernels.nc")
    save(KernelPredictor().fit(runs).calibrate(runs, folds=2), folder / "model-kernels.nc")
    head = "kind,m [1],k [1],n [1],clock [MHz],runtime [s],power [W]"
    table = (
        f"matmul,{a:g},{a:g},{a:g},{f:g},{t:.6g},{p:.6g}"
        for a, f, t, p in zip(m, clock, seconds, watts)
    )
    (folder / "kernels.csv").write_text("\n".join([head, *table]) + "\n")
    (folder / "map.toml").write_text('resources = ["clock"]\n')
    launches = make_workload(
        ["matmul"] * 2, [3, 1], parameters={p: [64, 100] for p in "mkn"}, workload=["n", "n"]
    )
    write_workload(launches, folder / "launches.nc")
    (folder / "launches.csv").write_text(
        "workload,kind,count,m,k,n\nn,matmul,3,64,64,64\nn,matmul,1,100,100,100\n"
    )
    make_costs(folder)


def make_costs(folder: Path) -> None:
    """Five programs in three clocks, one of them not measured in the lowest."""
    rng = np.random.default_rng(4)
    rows = [
        (f"p{i}", f, scale * (share + (1 - share) * 900 / f), 5 + 20 * (1 - share) * (f / 900) ** 3)
        for i, (scale, share) in enumerate(zip(rng.uniform(0.1, 2, 5), rng.uniform(0, 0.6, 5)))
        for f in CLOCKS
        if (i, f) != (0, CLOCKS[0])
    ]
    kind, clock, seconds, watts = zip(*rows)
    labels = {"resources": {"clock": clock}, "units": {"clock": "MHz"}}
    write_kernels(make_kernels(kind, seconds, power=watts, **labels), folder / "costs.nc")
    lines = ["kind,clock [MHz],runtime [s],power [W]"]
    lines += (f"{k},{f:g},{t:.6g},{p:.6g}" for k, f, t, p in rows)
    (folder / "costs.csv").write_text("\n".join(lines) + "\n")


def doubt_kernels(path: Path) -> None:
    """Raise if a file holds no measurement of kernels."""
    runtimes_of(validate_kernels(xr.load_dataset(path), source=path.name))
