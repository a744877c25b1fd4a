import functools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import oracles
from conftest import MEASURED, synthetic_task
from damaged import damaged
from forged import changed, content, forge, sealed
from forks import anew
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    all_contexts,
    context_table,
    counter_names,
    duration_array,
)
from msbgen.data.store import write_blocks, write_profiles
from msbgen.engine.bridge.solve import NotConvergedError
from msbgen.engine.generate.elapsed_distribution import ElapsedSettings
from msbgen.engine.generate.fit import DEFAULT, PAPER, fit_profiles
from msbgen.engine.generate.model import ProfileModel, is_model
from tasks import GRID, SMALL, labelled, task

KINDS = ("max_likelihood", "mean", "sample")
COARSE = ElapsedSettings(snapshot_interval=0.03)
QUICK = replace(DEFAULT, bins=40, segments=5, deconvolutions=1)


@functools.cache
def fitted(settings=QUICK):
    """A model of `measured`; tests that ask it, and change nothing, share it."""
    return fit_profiles(synthetic_task(MEASURED), settings)


def running(dataset, context):
    counts = Profiles.of(dataset).counts[context, 0]
    return counts[np.isfinite(counts[:, 0])]


@pytest.mark.parametrize("kind", ["mean", "max_likelihood"])
def test_states_equal_brute_force_over_all_atoms(measured, kind):
    """The whole way from the file to a state, against all n² atoms of the paper's description."""
    model = fitted(COARSE)
    query = np.array([[5.0, 1.4]])
    generated = running(model.generate(query, kind=kind), 0)
    table, counts = context_table(measured), Profiles.of(measured).counts
    whole = np.floor(duration_array(measured) / 0.01 + 1e-9)

    low, span = table.min(axis=0), np.ptp(table, axis=0)
    unit = (table - low) / span
    bandwidth = unit.std(axis=0) * len(unit) ** (-1 / 6)
    target = (query[0] - low) / span / bandwidth
    points, states, contexts = [], [], []
    for row in (3, 6):
        c, r = np.nonzero(whole > row)
        eta = np.hstack([counts[c, r, row], table[c]])
        smallest, largest = eta.min(axis=0), eta.max(axis=0)
        points.append(0.1 * (eta - smallest) / np.where(largest > smallest, largest - smallest, 1))
        states.append(counts[c, r, row])
        contexts.append(unit[c] / bandwidth)
    cost = oracles.squared_distances(*points)
    marginals = [np.full(len(p), 1 / len(p)) for p in points]
    plan = oracles.bridge_tensor([cost], marginals, 0.1)
    for row, lam in ((3, 1.0), (4, 2 / 3), (5, 1 / 3)):
        mass, value, context = oracles.atoms(plan, states, contexts, lam)
        weight = mass * np.exp(oracles.log_kernel(target, context))
        mean, heaviest = weight @ value / weight.sum(), value[weight.argmax()]
        expected = mean if kind == "mean" else heaviest
        np.testing.assert_allclose(generated[row], expected, rtol=2e-5)


@pytest.mark.parametrize("settings", [COARSE, QUICK], ids=["elapsed", "progress"])
@pytest.mark.parametrize("kind", KINDS)
def test_profiles_do_not_depend_on_the_blocks_they_are_generated_in(
    measured, monkeypatch, settings, kind
):
    model = fitted(settings)
    query = all_contexts(measured)
    options = {"kind": kind, "n_samples": 3, "times": 0.004}
    whole = model.generate(query, rng=3, **options)
    assert len(list(model.stream(query, rng=3, **options))) == 1
    for contexts_a_block, n_blocks in ((1, 12), (5, 3)):
        each = 8 * 3 * np.ceil(np.nanmax(model.distribution.duration) / 0.004)
        each *= 3 if kind == "sample" else 1
        monkeypatch.setattr(
            "msbgen.engine.generate.model._BLOCK_BYTES", (contexts_a_block + 0.5) * each
        )
        assert len(list(model.stream(query, rng=3, **options))) == n_blocks
        xr.testing.assert_identical(model.generate(query, rng=3, **options), whole)


@pytest.mark.parametrize("settings", [COARSE, QUICK], ids=["elapsed", "progress"])
@pytest.mark.parametrize("kind", KINDS)
def test_profiles_of_a_context_do_not_depend_on_order_or_other_contexts(settings, kind):
    """To the bit: alone, in blocks of any size, after any others; a bandwidth away, and far off."""
    model = fitted(settings)
    grid = [(w, f) for w in np.linspace(2, 8, 13) for f in np.linspace(1, 2, 11)]
    query = np.random.default_rng(0).permutation(np.array([*grid, (40.0, 9.0), (2.0, 90.0)]))
    profiles = Profiles.of(model.generate(query, kind=kind, n_samples=2))
    counts, durations = profiles.counts, profiles.duration
    draw = np.random.default_rng(1)
    for n in (1, 1, 2, 3, 7, 8, 9, 31, 64, 65):
        rows = draw.choice(len(query), n, replace=False)
        part = model.generate(query[rows], kind=kind, n_samples=2)
        np.testing.assert_array_equal(duration_array(part), durations[rows])
        own = Profiles.of(part).counts
        np.testing.assert_array_equal(own, counts[rows, :, : own.shape[2]])


def test_a_block_holds_its_contexts_only():
    """Bad arguments are found before the first block is asked for."""
    model = fitted()
    with pytest.raises(ValueError, match="is 0 in context 1; a positive"):
        model.stream([[2.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="times begin with"):
        model.stream([[2.0, 1.0]], times=-1)


def test_memory_does_not_grow_with_the_contexts(monkeypatch, tmp_path):
    monkeypatch.setattr("msbgen.engine.generate.model._BLOCK_BYTES", 4e5)
    model = fitted(COARSE)
    grid = [(w, f) for w in np.linspace(2, 8, 10) for f in np.linspace(1, 2, 10)]

    def write(n, name):
        blocks = model.stream(grid[:n], kind="sample", n_samples=20, times=0.001, rng=0)
        write_blocks(blocks, tmp_path / name)

    def peak(n):
        tracemalloc.start()
        write(n, f"{n}.nc")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    write(6, "first.nc")  # numba's and xarray's own lasting allocations
    few, many = peak(10), peak(100)
    written = xr.open_dataset(tmp_path / "100.nc")
    assert written.sizes["context"] == 100
    size = sum(variable.nbytes for variable in written.variables.values())
    assert many < size / 4
    assert many - few < size / 20  # the list of contexts, nothing of their profiles


def test_a_saved_model_generates_the_same(tmp_path):
    model = fitted(COARSE)
    model.save(tmp_path / "model.nc")
    loaded = ProfileModel.load(tmp_path / "model.nc")
    assert loaded.distribution.settings == model.distribution.settings
    for kind in KINDS:
        answers = [
            m.generate([[3.0, 1.1]], kind=kind, rng=np.random.default_rng(5))
            for m in (model, loaded)
        ]
        xr.testing.assert_identical(*answers)
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model.nc")


def test_a_model_of_few_contexts_keeps_its_fit_of_the_duration(tmp_path):
    clocks, queries = GRID[:3], [[2.0, 0.7], [2.0, 1.2], [2.0, 3.0]]
    model = fit_profiles(labelled(*task(clocks, 1, noise=0.005), clocks), SMALL)
    model.save(tmp_path / "few.nc")
    loaded = ProfileModel.load(tmp_path / "few.nc")
    wanted = task(queries, 1, noise=0.0)[1][:, 0]
    for one in (model, loaded):
        found = one.generate(queries, kind="mean")["duration"].values
        np.testing.assert_allclose(found, wanted, rtol=0.02)
        np.testing.assert_allclose(one.distribution.durations(np.array(queries)), found)
    part = "distribution.centre.trend.whole_time.0"
    for name, value in (("parts", -1.0), ("share", 2.0)):
        forge(tmp_path / "few.nc", changed(f"{part}.{name}", value))
        with pytest.raises(ProfileError, match=rf"{part}\.{name}"):
            ProfileModel.load(tmp_path / "few.nc")
        model.save(tmp_path / "few.nc", overwrite=True)


def test_a_profile_file_is_no_model(measured, tmp_path):
    measured.to_netcdf(tmp_path / "profiles.nc")
    with pytest.raises(ProfileError, match="has 'msbgen-model/6': fit it again"):
        ProfileModel.load(tmp_path / "profiles.nc")
    old = content(fitted(QUICK)).assign_attrs(schema="msbgen-model/5")
    assert is_model(old)
    with pytest.raises(ProfileError, match=r"'schema' is 'msbgen-model/5'; .*: fit it again"):
        ProfileModel.of_file(old)
    empty = sealed(xr.Dataset(attrs={"schema": "msbgen-model/6", "labels": "x"}))
    empty.to_netcdf(tmp_path / "half.nc")
    with pytest.raises(ProfileError, match=r"half\.nc: attribute 'labels' is 'x'"):
        ProfileModel.load(tmp_path / "half.nc")


@pytest.mark.parametrize("settings", [QUICK, COARSE], ids=["progress", "elapsed"])
def test_damaged_models_are_refused_in_a_sentence_or_generate(settings):
    ds, rng = content(fitted(settings)), np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        model = refusal = None
        try:
            model = ProfileModel.of_file(damaged(ds, rng))
        except ProfileError as error:
            refusal = str(error)
        if model is None:
            assert refusal.startswith("dataset: ")
            assert "\n" not in refusal
            refused += 1
            continue
        for kind in KINDS:
            generated = model.generate([[3.0, 1.1], [8.0, 2.0]], kind=kind, n_samples=2)
            assert inspect_profiles(generated).errors == []
    assert refused > 30


def test_runs_that_end_long_after_the_last_snapshot_are_refused():
    ds = content(fitted(COARSE)).copy(deep=True)
    ds["distribution.duration"] *= 1e4
    with pytest.raises(ProfileError, match=r"'distribution.duration' is .* intervals; 25 to"):
        ProfileModel.of_file(sealed(ds))


def test_equal_fits_are_equal_to_the_last_bit(measured):
    for settings in (QUICK, COARSE):
        one, two = (content(fit_profiles(measured, settings)) for _ in range(2))
        xr.testing.assert_identical(one, two)


def test_a_context_larger_than_memory_is_refused_at_once():
    model = fitted(QUICK)
    with pytest.raises(ArgumentError, match=r"one context is .* GB of counts; at most"):
        model.stream([[2.0, 1.0]], kind="mean", times=1e-12)
    with pytest.raises(ArgumentError, match="ask for fewer samples, or a longer interval"):
        model.stream([[2.0, 1.0]], kind="sample", n_samples=10**12)


def test_contexts_outside_the_hull_are_marked(measured):
    model = fitted()
    inside, outside = [[2.0, 1.0], [5.0, 1.5]], [[1.0, 1.5], [4.0, 2.5]]
    generated = model.generate(inside + outside, kind="mean")
    assert generated["extrapolated"].values.tolist() == [0, 0, 1, 1]
    triangle = fit_profiles(measured.isel(context=[0, 1, 4]), QUICK)  # not every corner is known
    marked = triangle.generate([[3.0, 1.2], [7.5, 1.9]], kind="mean")["extrapolated"]
    assert marked.values.tolist() == [0, 1]


def test_known_profiles_have_the_measured_means(measured):
    known = fitted().known_profiles()
    assert inspect_profiles(known).errors == []
    np.testing.assert_array_equal(context_table(known), context_table(measured))
    assert known.attrs["interval"] < measured.attrs["interval"]
    means = duration_array(measured).mean(axis=1)
    np.testing.assert_allclose(duration_array(known)[:, 0], means, rtol=0.01)
    for name in counter_names(measured):
        total = measured[name].sum("time").mean("run")
        np.testing.assert_allclose(known[name].sum("time")[:, 0], total, rtol=0.01)
    some = fitted().known_profiles([2, 0])
    np.testing.assert_array_equal(context_table(some), context_table(measured)[[2, 0]])
    with pytest.raises(ArgumentError, match="paper's preset, which has no profiles by progress"):
        fitted(COARSE).known_profiles()


def test_times_set_the_output_interval_and_conserve_events(measured):
    model = fitted()
    query = context_table(measured)
    native = model.generate(query, kind="mean")
    finer = model.generate(query, kind="mean", times=0.004)
    assert finer.attrs["interval"] == 0.004
    assert inspect_profiles(finer).errors == []
    for name in counter_names(measured):
        np.testing.assert_allclose(finer[name].sum("time"), native[name].sum("time"), rtol=1e-5)
    longest = float(native["duration"].max())
    explicit = model.generate(query, kind="mean", times=0.004 * np.arange(1, longest / 0.004 + 2))
    np.testing.assert_array_equal(
        explicit["instructions"].values[:, : finer.sizes["time"]], finer["instructions"].values
    )
    with pytest.raises(ValueError, match="a profile lasts"):
        model.generate(query, times=[0.01, 0.02])
    with pytest.raises(ValueError, match="equally spaced"):
        model.generate(query, times=[0.01, 0.05, 1.0])
    with pytest.raises(ValueError, match="times begin with"):
        model.generate(query, times=-0.1)


def test_short_runs_are_refused_with_a_remedy(measured):
    coarse = synthetic_task(context_table(measured), interval=0.3)
    with pytest.raises(
        MeasurementError, match=r"synthetic: no run has two whole sampling intervals of 0\.3 s"
    ):
        fit_profiles(coarse, PAPER)


def test_a_bridge_that_does_not_converge_raises(measured):
    with pytest.raises(NotConvergedError):
        fit_profiles(measured, ElapsedSettings(tol=1e-17))


def test_bad_settings_are_refused(measured):
    with pytest.raises(ValueError, match="epsilon is -1"):
        ElapsedSettings(epsilon=-1)
    with pytest.raises(ValueError, match="method is 'other'"):
        ElapsedSettings(method="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind is 'best'"):
        fitted().generate([[2.0, 1.0]], kind="best")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="settings is 'paper'"):
        fit_profiles(measured, "paper")  # type: ignore[arg-type]
    del measured["cache_ways"].attrs["levels"]  # which would tell of other units
    with pytest.raises(ArgumentError, match="more than 1000 measured ranges away"):
        fit_profiles(measured, QUICK).generate([[1e4, 1.0]])
    with pytest.raises(ValueError, match="n_samples is 0"):
        fitted().generate([[2.0, 1.0]], kind="sample", n_samples=0)


@pytest.mark.parametrize("kind", ["mean", "max_likelihood"])
def test_every_row_until_the_end_is_filled_wherever_snapshots_lie(measured, kind):
    for step in (0.01, 0.02, 0.03, 0.05, 0.07):
        settings = ElapsedSettings(method="pairwise", snapshot_interval=step)
        model = fitted(settings)
        generated = model.generate(all_contexts(measured), kind=kind)
        for one in range(0, 12, 3):  # alone, so that the profile ends where it likes
            alone = model.generate(all_contexts(measured)[[one]], kind=kind)
            rows = int(np.ceil(float(alone["duration"][0]) / 0.01 * (1 - 1e-9)))
            counts = Profiles.of(alone).counts[0, 0]
            assert np.isfinite(counts).all(axis=1).sum() == rows == len(counts)
            np.testing.assert_allclose(
                counts, Profiles.of(generated).counts[one, 0, :rows], rtol=1e-5
            )


EVERY_WAY = """
from dataclasses import replace
from msbgen import PRESETS, ProfileModel, fit_profiles, read_profiles
from msbgen.engine.bridge import _kernels
def compiled():
    return {{n: len(getattr(f, "signatures", [])) for n, f in vars(_kernels).items()}}
measured = read_profiles({path!r})
presets = PRESETS | {{"default": replace(PRESETS["default"], bins=50)}}
model = fit_profiles(measured, presets["default"])
model.generate([[3.0, 1.1]], kind="mean")
model.distribution.durations(model.distribution.contexts)
print(sum(compiled().values()))
for name, settings in presets.items():
    model = fit_profiles(measured, settings)
    model.save({path!r} + name)
    for model in (model, ProfileModel.load({path!r} + name)):
        for kind in ("mean", "max_likelihood", "sample"):
            model.generate([[3.0, 1.1]], kind=kind, times=0.004)
print(sum(compiled().values()), *(n for n, times in compiled().items() if times > 1))
"""


def test_means_compile_no_kernel_of_the_bridge_and_nothing_compiles_one_twice(measured, tmp_path):
    """A second layout of an argument is a second compilation, of seconds on a first use."""
    write_profiles(measured, tmp_path / "measured.nc")
    means, every = anew(EVERY_WAY.format(path=str(tmp_path / "measured.nc")))
    total, *twice = every.split()
    assert means == "0"
    assert int(total) > 10
    assert twice == []
