"""A user's script in full: every public name, with the types that a checker must see.

    python tests/public_names.py FOLDER

``tests/test_public.py`` runs it and has pyright read it in strict mode: it fails where a public
function takes or gives what is not known to the last type argument.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen
from msbgen.answers.choose.allotment import Allotment
from msbgen.answers.choose.context import ContextChoice
from msbgen.data.sharing import Sharing, shared_by_all

Floats = NDArray[np.float64]
DONE: list[tuple[int, int]] = []


def step(done: int, total: int) -> None:
    """What long work tells of itself."""
    DONE.append((done, total))


def ways_and_clock() -> xr.Dataset:
    """A task that waits for memory, which more cache ways spare it, and computes at the clock."""
    contexts = np.array([(w, f) for w in (2.0, 4.0, 6.0, 8.0) for f in (1.0, 1.5, 2.0)])
    rng = np.random.default_rng(0)
    counts = np.full((len(contexts), 3, 60, 2), np.nan)
    duration = np.empty((len(contexts), 3))
    for c, (ways, clock) in enumerate(contexts):
        for run in range(3):
            seconds = float((0.2 / clock + 0.4 / ways) * (1 + 0.01 * rng.standard_normal()))
            full = int(seconds / 0.01)
            share = np.append(np.full(full, 0.01), seconds - 0.01 * full) / seconds
            counts[c, run, : full + 1, 0] = 1e8 * share
            counts[c, run, : full + 1, 1] = 1e6 / ways * share
            duration[c, run] = seconds
    made = msbgen.make_profiles(
        counts,
        duration,
        contexts,
        interval=0.01,
        resources={
            "cache_ways": {"units": "1", "levels": [2.0, 4.0, 6.0, 8.0]},
            "frequency": {"units": "GHz", "levels": [1.0, 1.5, 2.0]},
        },
        counters={"instructions": {}, "cache_misses": {}},
        attrs={"task": "ways and clock"},
    )
    return assert_type(made, xr.Dataset)


def files(folder: Path) -> xr.Dataset:
    """Write and read measurements."""
    path = folder / "measured.nc"
    msbgen.write_profiles(ways_and_clock(), path)
    measured = assert_type(msbgen.read_profiles(path), xr.Dataset)
    msbgen.validate_profiles(measured)
    assert_type(msbgen.all_contexts(measured), Floats)
    assert_type(msbgen.context_table(measured), Floats)
    assert_type(msbgen.evaluate.mean_profiles(measured), xr.Dataset)
    shipped = assert_type(msbgen.shipped_file("gzip.nc"), Path)
    assert shipped.is_file()
    return measured


def generate(folder: Path, measured: xr.Dataset) -> msbgen.ProfileModel:
    """Fit, generate, save."""
    settings = msbgen.ProgressSettings(bins=40, segments=10)
    report: msbgen.OnProgress = step
    model = msbgen.fit_profiles(measured, settings, rng=0, progress=report)
    assert_type(model, msbgen.ProfileModel)
    kind: msbgen.Kind = "sample"
    profiles = model.generate([[3.0, 1.2]], kind=kind, n_samples=4, rng=1, progress=report)
    assert_type(profiles, xr.Dataset)
    blocks = model.stream(msbgen.all_contexts(measured), kind="mean", times=0.02)
    assert_type(blocks, Iterator[xr.Dataset])
    msbgen.write_blocks(blocks, folder / "generated.nc", overwrite=True)
    model.save(folder / "model.nc", overwrite=True)
    assert_type(msbgen.ProfileModel.load(folder / "model.nc"), msbgen.ProfileModel)
    return model


def bound(folder: Path, model: msbgen.ProfileModel, measured: xr.Dataset) -> None:
    """Bounds on arrays, with labels, and of one context."""
    calibrated = msbgen.calibrate_model(model, measured, rng=0, progress=step)
    assert_type(calibrated, msbgen.CalibratedModel)
    assert_type(calibrated.duration_bound([[3.0, 1.2]], miscoverage=0.2), Floats)
    assert_type(calibrated.bounds([[3.0, 1.2]], miscoverage=0.2), xr.Dataset)
    answer = assert_type(calibrated.answer([3.0, 1.2], miscoverage=0.2), msbgen.Answer)
    assert_type(answer.counts, NDArray[np.float32])
    assert_type(answer.duration, float)
    assert_type(answer.bound, float)
    calibration = assert_type(calibrated.calibration, msbgen.Calibration)
    lower, upper = calibration.bands([[3.0, 1.2]], 0.2, holds="segment")
    assert_type(lower, Floats)
    assert_type(upper, Floats)
    assert_type(calibration.beyond([[3.0, 1.2]]), NDArray[np.bool_])
    calibrated.save(folder / "calibrated.nc", overwrite=True)
    loaded = msbgen.CalibratedModel.load(folder / "calibrated.nc")
    assert_type(loaded, msbgen.CalibratedModel)


def choose(model: msbgen.ProfileModel, measured: xr.Dataset) -> None:
    """The cheapest context of one task, and contexts of two that share the cache."""
    calibrated = msbgen.calibrate_model(model, measured)
    bounds = calibrated.bounds(msbgen.all_contexts(measured), miscoverage=0.2)
    chosen = msbgen.choose_context(bounds, 0.5, "cache_ways=1", untested=True)
    assert_type(chosen, ContextChoice)
    assert_type(chosen.context, Floats)
    assert_type(chosen.more[0].bound, float)
    total = {"cache_ways": 12.0}
    both = msbgen.share_resources(
        [bounds, bounds], [0.5, 0.4], {"cache_ways": 1.0}, total, weights=[1, 2], untested=True
    )
    assert_type(both, Allotment)
    assert_type(both.used, dict[str, float])
    assert_type(both.choices[0].cost, float)


def plan(folder: Path, model: msbgen.ProfileModel) -> None:
    """What to measure next, from a model and from nothing."""
    planned = assert_type(msbgen.plan_contexts(model, "10s"), msbgen.Plan)
    assert_type(planned.contexts, Floats)
    assert_type(planned.runs, NDArray[np.int64])
    assert_type(planned.error, Floats)
    planned.write(folder / "plan.csv", overwrite=True)
    levels: dict[str, list[float]] = {"cache_ways": [2, 4, 8], "frequency": [1.0, 2.0]}
    assert_type(msbgen.plan_contexts(levels, 4).describe(), str)


def score(measured: xr.Dataset) -> None:
    """Methods beside one another, and single distances."""
    known = measured.isel(context=slice(0, None, 2))
    truth = measured.isel(context=slice(1, None, 2))
    some: dict[str, msbgen.evaluate.Method] = {
        name: msbgen.evaluate.BASELINES[name]
        for name in msbgen.evaluate.METHODS
        if name in msbgen.evaluate.BASELINES
    }
    scores = assert_type(msbgen.score_methods(known, truth, some, progress=step), xr.Dataset)
    assert_type(msbgen.evaluate.improvement(scores), xr.DataArray)
    assert_type(msbgen.summarise(scores), dict[str, Any])
    left_out = msbgen.leave_contexts_out(measured, 4, ["kernel_mean"], rng=0)
    assert_type(left_out, xr.Dataset)
    a, b = np.eye(3), np.ones((4, 3))
    assert_type(msbgen.evaluate.dtw_distance(a, b), float)
    assert_type(
        msbgen.evaluate.normalised_dtw(a, b, scale=[1.0, 2.0, 3.0], method="fastdtw"), float
    )
    assert_type(msbgen.evaluate.energy_distance(a, b), float)
    assert_type(msbgen.evaluate.wasserstein_distance(a, b), float)


def compare(measured: xr.Dataset) -> None:
    """One version beside another."""
    settings = msbgen.CompareSettings(tolerance=0.02, permutations=99)
    comparison = msbgen.compare_profiles(measured, measured.copy(), settings=settings, rng=1)
    assert_type(comparison, msbgen.Comparison)
    assert_type(comparison.time.low, float)
    assert_type(comparison.as_dict(), dict[str, Any])


def beside(measured: xr.Dataset) -> None:
    """Two programs that share a cache, and which of three to put together."""
    requests = (2 * measured["cache_misses"]).assign_attrs(measured["cache_misses"].attrs)
    columns = msbgen.beside.Columns(way_size=2.0**19)
    table = msbgen.beside.program_table(
        measured.assign(cache_requests=requests), 2.0, segments=20, columns=columns
    )
    assert_type(table, msbgen.beside.ProgramTable)
    shared = assert_type(shared_by_all(2, ways=8, bandwidth=200.0, frequency=2.0), Sharing)
    law = msbgen.beside.LawSettings()
    course = msbgen.beside.play([table, table], shared, interval=0.02, law=law)
    assert_type(course, msbgen.beside.Course)
    assert_type(course.slowdown, Floats)
    assert_type(msbgen.beside.course_profiles(course), list[xr.Dataset])
    assert_type(msbgen.beside.duration_bounds([table, table], shared, 0.9, draws=4), Floats)
    harm = assert_type(msbgen.beside.find_harm([table, table], shared), msbgen.beside.Harm)
    assert_type(harm.by, Floats)
    chosen = msbgen.beside.choose_placement([table] * 3, 2, shared, progress=step)
    assert_type(chosen, msbgen.beside.Placement)
    repaired = msbgen.beside.best_partition([table, table], shared)
    assert_type(repaired.groups, tuple[tuple[int, ...], ...])


def solve() -> None:
    """The Schrödinger bridge itself, on arrays."""
    rng = np.random.default_rng(0)
    points = [rng.random((n, 2)) for n in (4, 5, 6)]
    config = msbgen.bridge.SolverConfig(tol=1e-8, threads=1)
    bridge = msbgen.bridge.solve_bridge(points, epsilon=0.1, config=config, progress=step)
    assert_type(bridge, msbgen.bridge.Bridge)
    assert_type(bridge.coupling(0), Floats)
    assert_type(bridge.marginal_error, Floats)
    assert_type(bridge.iterations, NDArray[np.int64])
    assert_type(bridge.sample_paths(3, rng=1), NDArray[np.intp])
    cloud = assert_type(bridge.interpolate(0.5), msbgen.bridge.Cloud)
    assert_type(cloud.points, Floats)
    assert_type(bridge.sample_points([0.5, 1.5], 3, rng=1), Floats)
    assert_type(bridge.condition(0.5, [p[:, :1] for p in points], [0.5], 0.2), msbgen.bridge.Cloud)
    assert bridge.status is msbgen.bridge.Status.CONVERGED


def fail(folder: Path, model: msbgen.ProfileModel) -> list[str]:
    """The ways to fail, each with one sentence."""
    message: list[str] = []
    try:
        model.generate([[3.0, 1.2, 5.0]])
    except msbgen.ArgumentError as error:
        message.append(str(error))
    try:
        paper: msbgen.ElapsedSettings = msbgen.PAPER
        settings = (msbgen.DEFAULT, paper, msbgen.PRESETS["paper"])[2]
        msbgen.fit_profiles(ways_and_clock().isel(time=slice(0, 1)), settings)
    except (msbgen.MeasurementError, msbgen.ProfileError) as error:
        message.append(str(error))
    try:
        msbgen.read_profiles(folder / "plan.csv")
    except msbgen.ProfileError as error:
        message.extend(assert_type(error.problems, tuple[str, ...]))
    try:
        config = msbgen.bridge.SolverConfig(tol=1e-12, max_iter=1)
        points = [np.eye(3), 2 * np.eye(3)]
        weights = [np.array([1.0, 2.0, 3.0]), np.ones(3)]
        msbgen.bridge.solve_bridge(points, weights, epsilon=0.01, config=config)
    except msbgen.NotConvergedError as error:
        message.append(str(error.bridge.status))
    return message


def runtimes(folder: Path) -> None:
    """Runtimes never measured."""
    rng = np.random.default_rng(1)
    cells = np.array([(i, j, k) for i in range(6) for j in range(5) for k in (-1, -1, 0, 1)])
    seconds = 1.5 ** cells[:, 0] * 2.0 ** cells[:, 1] * np.exp(0.02 * rng.standard_normal(120))
    made = msbgen.runtimes.make(
        seconds,
        cells[:, 0],
        cells[:, 1],
        cells[:, 2:],
        np.arange(120),
        workloads=[f"w{i}" for i in range(6)],
        platforms=[f"p{j}" for j in range(5)],
    )
    msbgen.runtimes.write(made, folder / "runtimes.nc")
    read = assert_type(msbgen.runtimes.read(folder / "runtimes.nc"), xr.Dataset)
    assert_type(msbgen.runtimes.run_table(read), NDArray[np.int64])
    settings = msbgen.runtimes.TowerSettings(rank=4, hidden=8, steps=20)
    model = msbgen.runtimes.RuntimePredictor(members=1, towers=settings).fit(
        cells, seconds, progress=step
    )
    model = assert_type(model.calibrate(cells, seconds), msbgen.runtimes.RuntimePredictor)
    assert_type(model.predict([[0, 1, -1]]), Floats)
    names = tuple(f"w{i}" for i in range(6)), tuple(f"p{j}" for j in range(5))
    model.names_ = names
    model.save(folder / "runtime-model.nc")
    again = msbgen.runtimes.RuntimePredictor.load(folder / "runtime-model.nc")
    assert again.names_ == names
    assert_type(again.predict_bound([[0, 1, -1]], 0.2), Floats)
    assert_type(msbgen.runtimes.fit(read), msbgen.runtimes.RuntimePredictor)
    rows = msbgen.runtimes.evaluate(read, train=0.7, replicates=1)
    assert_type(rows, list[dict[str, Any]])


def relative(folder: Path) -> None:
    """Which machine runs this best."""
    rng = np.random.default_rng(2)
    work, share = np.exp(rng.normal(15, 1, 20)), rng.random(20)
    made = msbgen.machines.make(
        np.stack([1e-9 * work, 2e-9 * work * share], axis=1),
        ["old", "new"],
        program=[f"p{i}" for i in range(20)],
        counters={"instructions": work, "loads": share * work},
        work="instructions",
    )
    msbgen.machines.write(made, folder / "relative.nc")
    read = assert_type(msbgen.machines.read(folder / "relative.nc"), xr.Dataset)
    assert_type(msbgen.machines.relative_times(read, "fastest"), Floats)
    (folder / "relative.csv").write_text("program,machine,runtime [s]\np,old,1\np,new,2\n")
    assert_type(msbgen.machines.read_table(folder / "relative.csv"), xr.Dataset)
    shipped = msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc"))
    runs = msbgen.machines.from_runtimes(shipped, {"Zen 3": "hc-10", "Cortex-A72": "hc-21"})
    assert_type(runs, xr.Dataset)
    assert_type(msbgen.machines.from_profiles({"here": [ways_and_clock()]}), xr.Dataset)
    boosting = msbgen.learn.BoostingSettings(rounds=5)
    model = msbgen.machines.RelativePredictor(
        boosting=boosting,
        kriging=msbgen.machines.KrigingSettings(steps=2),
        trees=msbgen.learn.TreesSettings(trees=5),
    )
    model = assert_type(model.fit(read, progress=step), msbgen.machines.RelativePredictor)
    assert_type(model.predict(read, "old"), Floats)
    low, high = model.calibrate(read, folds=2).predict_interval(read, ["old"], 0.2)
    assert_type(low, Floats)
    assert_type(high, Floats)
    assert_type(msbgen.machines.cross_predict(read, model, folds=2), Floats)
    rows = msbgen.machines.evaluate(read, folds=2, predictor=model)
    assert_type(rows, list[dict[str, Any]])
    model.save(folder / "relative-model.nc")
    assert_type(
        msbgen.machines.RelativePredictor.load(folder / "relative-model.nc"),
        msbgen.machines.RelativePredictor,
    )


def graph_predictions(folder: Path) -> None:
    profiles = {"gzip": msbgen.read_profiles(msbgen.shipped_file("gzip.nc"))}
    graph = msbgen.graphs.make(
        ["gzip"] * 3, [0.1, 0.2, 0.1], [(0, 1), (0, 2)], name="g", family="f"
    )
    tx2 = msbgen.graphs.shipped_device("tx2")
    some = msbgen.graphs.device_contexts(tx2)[::99]
    seconds = np.linspace(1.0, 2.0, len(some))
    names = ["g"] * len(some)
    runs = msbgen.graphs.make_runs(
        tx2, some, graph=names, family=["f"] * len(some), makespan=seconds, energy=8 * seconds
    )
    model = msbgen.graphs.GraphPredictor(residual=False)
    fitted = model.fit([runs], devices=[tx2], graphs={"g": graph}, profiles=profiles, progress=step)
    assert_type(fitted, msbgen.graphs.GraphPredictor)
    assert_type(model.predict(graph, tx2, some, temperature=30.0), Floats)
    assert_type(model.extrapolated(graph, tx2, some), NDArray[np.bool_])
    model.save(folder / "graph-model.nc")
    assert_type(
        msbgen.graphs.GraphPredictor.load(folder / "graph-model.nc"), msbgen.graphs.GraphPredictor
    )


def kernels(folder: Path) -> None:
    """Kernels at several clocks."""
    clock = np.repeat([500.0, 800.0, 1000.0], 6)
    rows = np.tile([64.0, 96.0, 128.0, 192.0, 256.0, 384.0], 3)
    made = msbgen.kernels.make(
        ["matmul"] * 18,
        1e-5 + rows**3 / clock / 1e7,
        power=5.0 + 1e-8 * clock**3,
        parameters={"m": rows, "k": rows, "n": rows},
        resources={"clock": clock},
        units={"clock": "MHz"},
    )
    msbgen.kernels.write(msbgen.kernels.join([made]), folder / "kernels.nc")
    read = assert_type(msbgen.kernels.read(folder / "kernels.nc"), xr.Dataset)
    (folder / "kernels.csv").write_text("kind,runtime [ms],clock [MHz]\na,1,500\n")
    columns = msbgen.kernels.ColumnMap(resources=("clock",))
    assert_type(msbgen.kernels.read_table(folder / "kernels.csv", columns), xr.Dataset)
    (folder / "map.toml").write_text("resources = ['clock']\n")
    assert msbgen.kernels.read_column_map(folder / "map.toml") == columns
    assert_type(msbgen.kernels.from_profiles([ways_and_clock()]), xr.Dataset)
    readers = (msbgen.kernels.read_jetson, msbgen.kernels.read_nv_dvfs, msbgen.kernels.read_zeus)
    assert all(reader.__doc__ for reader in readers)
    launches = msbgen.kernels.make_workload(
        ["matmul"], [3], parameters={"m": [64], "k": [64], "n": [64]}
    )
    msbgen.kernels.write_workload(launches, folder / "workload.nc")
    workload = assert_type(msbgen.kernels.read_workload(folder / "workload.nc"), xr.Dataset)
    assert workload.sizes["launch"] == 1
    assert read.sizes["measurement"] == 18
    model = assert_type(
        msbgen.kernels.ConfigurationModel(noise=1e-4), msbgen.kernels.ConfigurationModel
    )
    assert_type(model.get_params(), dict[str, Any])
    predictor = msbgen.kernels.KernelPredictor().fit(read, progress=step)
    predictor.save(folder / "kernel-model.nc")
    predictor = assert_type(
        msbgen.kernels.KernelPredictor.load(folder / "kernel-model.nc"),
        msbgen.kernels.KernelPredictor,
    )
    seconds, joules = msbgen.kernels.predict_network(predictor, workload, [[600.0]])
    assert_type(seconds, Floats)
    assert_type(joules, Floats)
    assert_type(msbgen.kernels.evaluate(read, folds=2), list[dict[str, Any]])


def graphs(folder: Path) -> None:
    """Draw, write and read task graphs; a device, and runs on it."""
    drawn = assert_type(msbgen.graphs.family_graph("cholesky", 3), xr.Dataset)
    msbgen.graphs.write(drawn, folder / "graph.json")
    assert_type(msbgen.graphs.read(folder / "graph.json"), xr.Dataset)
    small = msbgen.graphs.make(["slow", "slow"], [0.1, 0.2], [(0, 1)], name="small")
    profiles = {"slow": ways_and_clock()}
    timed = assert_type(msbgen.graphs.with_times(small, profiles), xr.Dataset)
    assert_type(msbgen.graphs.with_profiles(timed, profiles), xr.Dataset)
    device = assert_type(msbgen.graphs.shipped_device("tx2"), msbgen.graphs.Device)
    assert_type(
        msbgen.graphs.read_device(msbgen.shipped_file("devices/tx2.toml")), msbgen.graphs.Device
    )
    contexts = assert_type(msbgen.graphs.device_contexts(device, clocks=1, cache_ways=16), Floats)
    n = len(contexts)
    runs = msbgen.graphs.make_runs(
        device,
        contexts,
        graph=["small"] * n,
        family=["toy"] * n,
        makespan=np.ones(n),
        energy=np.full(n, 8.0),
    )
    msbgen.graphs.write_runs(runs, folder / "runs.csv")
    again = assert_type(msbgen.graphs.read_runs(folder / "runs.csv", device), xr.Dataset)
    assert_type(msbgen.graphs.join_runs([runs, again]), xr.Dataset)


def energy() -> None:
    """Energy in profiles, and what programs cost."""
    task = ways_and_clock()
    watts = (1 + task["frequency"] ** 3) * (task["instructions"] >= 0)
    watts = watts.where(watts > 0).transpose(*task["instructions"].dims)
    metered = msbgen.add_energy(task.assign(power=watts.assign_attrs(units="W")), "power")
    assert_type(msbgen.total_energy(metered), Floats)
    assert_type(msbgen.power_over_time(metered), xr.DataArray)
    assert_type(msbgen.scale_energy(metered, np.ones(12)), xr.Dataset)
    costs = assert_type(msbgen.kernels.costs_of(metered), msbgen.kernels.Costs)
    assert_type(costs.time, Floats)
    others = [metered.assign_attrs(task=name) for name in ("a", "b")]
    corrector = msbgen.kernels.EnergyCorrector(metered, others)
    assert_type(corrector.correct(metered), xr.Dataset)
    found = assert_type(
        msbgen.kernels.compare_groups([[1.0, 1.1], [1.2, 1.4]]), msbgen.kernels.Variability
    )
    assert_type(found.between, float)
    assert not list(msbgen.kernels.variability_rows(msbgen.kernels.from_profiles([task])))


def main(folder: Path) -> list[str]:
    """Everything; what failures said."""
    measured = files(folder)
    model = generate(folder, measured)
    bound(folder, model, measured)
    choose(model, measured)
    plan(folder, model)
    score(measured)
    compare(measured)
    beside(measured)
    solve()
    runtimes(folder)
    relative(folder)
    graph_predictions(folder)
    kernels(folder)
    energy()
    graphs(folder)
    return fail(folder, model)


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])), sep="\n")
