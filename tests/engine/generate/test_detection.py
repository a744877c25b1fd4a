"""Detection of faults in measured runs, and fits that correct them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import msbgen
import partials
from conftest import synthetic_task
from faulty import EVERY_FAULT, spoilt
from forged import content, sealed
from msbgen.cli.main import main
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array, sampling_interval
from msbgen.engine.faults.findings import Findings, StretchedRun, WrongCount
from msbgen.engine.generate.detection import (
    describe_faults,
    find_faults,
    known_faults,
    without_faults,
)
from msbgen.engine.generate.measurements import Measurements

WAYS, CLOCKS = (2.0, 3.0, 4.0, 6.0, 8.0), (1.0, 1.25, 1.5, 2.0)
GRID = np.array([(w, f) for w in WAYS for f in CLOCKS])
COARSE = msbgen.ProgressSettings(bins=100, segments=10, deconvolutions=2)


@pytest.fixture(scope="module")
def clean():
    return synthetic_task(GRID, n_runs=2)


def found(dataset, **known):
    counts, duration = Profiles.of(dataset).counts, duration_array(dataset)
    interval = sampling_interval(dataset)
    return find_faults(Measurements(counts, duration, context_table(dataset), interval, 1), **known)


def sentences(dataset):
    return describe_faults(Profiles.of(dataset), known_faults(Profiles.of(dataset)))


def places(findings, order=None, runs=None):
    """Kinds, contexts and runs of findings, in the order before a shuffle."""
    out = set()
    for fault in findings:
        at = fault.contexts if order is None else tuple(int(order[i]) for i in fault.contexts)
        run = [fault.run] if isinstance(fault, (StretchedRun, WrongCount)) else []
        out.add((fault.kind, *sorted(at), *(run if runs is None else [int(runs[r]) for r in run])))
    return out


@pytest.fixture(scope="module")
def three_runs():
    return synthetic_task(GRID)


@pytest.fixture(scope="module")
def faulty(three_runs):
    return spoilt(three_runs, **EVERY_FAULT)


def test_missing_samples_are_no_stretch(faulty):
    missing = np.zeros(Profiles.of(faulty).counts.shape[:3], dtype=bool)
    missing[EVERY_FAULT["stretched"][0][:2]] = True  # the run that is found stretched otherwise
    assert "stretched" not in {fault.kind for fault in found(faulty, missing=missing)}


@settings(max_examples=4)
@given(seed=st.integers(0, 10_000), runs=st.integers(1, 4))
def test_nothing_is_wrong_with_clean_runs(seed, runs):
    assert not found(synthetic_task(GRID, n_runs=runs, seed=seed))


@pytest.fixture(scope="module")
def findings(faulty):
    return known_faults(Profiles.of(faulty))


NAMED = {("slow", 9), ("exchanged", 2, 16), ("stretched", 5, 1), ("count", 12, 0)}


def test_every_fault_at_once_is_named(findings):
    assert places(findings) == NAMED


def test_the_order_of_contexts_and_runs_does_not_matter(faulty):
    rng = np.random.default_rng(0)
    order, runs = rng.permutation(20), rng.permutation(3)
    shuffled = faulty.isel(context=order, run=runs)
    assert places(found(shuffled), order, runs) == NAMED


def test_exchanged_single_runs_are_no_stretches(three_runs):
    single = spoilt(three_runs.isel(run=[0]), exchanged=[(2, 16)])
    assert places(found(single)) == {("exchanged", 2, 16)}


def test_a_counter_that_is_always_zero_hides_no_fault(three_runs):
    spoiled = spoilt(three_runs.isel(run=slice(0, 2)), exchanged=[(2, 16)])
    silent = spoiled["cache_misses"].copy(
        data=np.where(spoiled["cache_misses"].isnull(), np.nan, 0.0)
    )
    with np.errstate(divide="raise", invalid="raise"):
        assert places(found(spoiled.assign(silent=silent))) == {("exchanged", 2, 16)}


def test_the_time_of_a_stretch_is_predicted_and_the_rest_of_the_run_kept(three_runs):
    single = three_runs.isel(run=[0])
    slowed = spoilt(single, stretched=[(5, 0, 2.5, 0.4, 0.6)])
    models = [msbgen.fit_profiles(one, COARSE) for one in (single, slowed)]
    assert not models[1].extrapolated(GRID[[5]]).any()
    fits = [model.distribution for model in models]
    clean, repaired = (fit.known_states()[5] for fit in fits)
    assert np.argwhere(np.isnan(fits[1].duration)).tolist() == [[5, 0]]
    assert repaired[..., 0].sum() == pytest.approx(clean[..., 0].sum(), rel=0.01)
    assert repaired[..., 1:].sum(axis=0) == pytest.approx(clean[..., 1:].sum(axis=0))
    assert repaired[:30, 0].sum() == pytest.approx(clean[:30, 0].sum(), rel=0.01)
    assert np.isfinite(fits[1].residuals.residual).all()


def test_an_exchange_is_not_made_up_of_a_stretched_run(three_runs):
    single = spoilt(three_runs.isel(run=[0]), stretched=[(5, 0, 2.5, 0.4, 0.6)])
    assert places(found(single)) == {("stretched", 5, 0)}


def test_a_fit_to_faulty_data_is_about_as_good_as_one_to_clean(
    three_runs, faulty, findings, monkeypatch
):
    query = [[5.0, 1.4], [3.5, 1.3], [7.0, 1.9], [2.5, 1.1]]
    truth = synthetic_task(np.array(query), n_runs=20, seed=1)

    wanted = np.nan_to_num(Profiles.of(truth).counts).mean(axis=1)
    scale = wanted.max(axis=(0, 1))

    def errors(dataset):
        """Of duration, and nDTW, of the worst context of the query."""
        made = msbgen.fit_profiles(dataset, COARSE).generate(query, kind="mean")
        profiles = [p[np.isfinite(p).all(axis=1)] for p in Profiles.of(made).counts[:, 0]]
        pairs = zip(profiles, wanted)
        ndtw = [msbgen.evaluate.normalised_dtw(a / scale, b / scale) for a, b in pairs]
        ratio = duration_array(made)[:, 0] / duration_array(truth).mean(axis=1)
        return np.array([np.abs(ratio - 1).max(), max(ndtw)])

    def errors_with(findings, dataset):
        monkeypatch.setattr("msbgen.engine.generate.fit.detect_faults", lambda *_: findings)
        return errors(dataset)

    clean, unweighted = (errors_with(Findings(), ds) for ds in (three_runs, faulty))
    robust = errors_with(findings, faulty)
    assert np.all(robust < 1.5 * clean + 0.003)
    assert np.all(unweighted > 3 * robust)


def drifting(dataset, by):
    """The same, measured in random order on a machine that became slower; and the slowdowns."""
    order = np.random.default_rng(3).permutation(dataset["duration"].size)
    started = order.reshape(dataset["duration"].shape) / (order.size - 1)
    slowdowns = 1.0 + by * (started - 0.5)
    slower = spoilt(
        dataset, stretched=[(*at, slowdown, 0.0, 1.0) for at, slowdown in np.ndenumerate(slowdowns)]
    )
    return slower.assign(started=(("context", "run"), 1e3 * started)), slowdowns


@pytest.mark.parametrize(("runs", "by"), [(1, 0.2), (3, 0.06)])
def test_a_drift_is_named_and_corrected(three_runs, runs, by, tmp_path):
    slow, slowdowns = drifting(spoilt(three_runs.isel(run=slice(0, runs)), slow=[(9, 2.2)]), by)
    model = msbgen.fit_profiles(slow, COARSE)
    assert places(model.findings) == {("slow", 9), ("drift",)}
    assert "became" in " ".join(model.attrs["faults"])
    assert model.distribution.centre.time_imputed.tolist() == [i == 9 for i in range(20)]
    ratio = np.delete(model.distribution.centre.slowdown / slowdowns, 9, axis=0)
    assert ratio == pytest.approx(1.0, abs=0.25 * by)
    model.save(tmp_path / "model.nc")
    again = type(model).load(tmp_path / "model.nc").distribution.centre
    assert np.array_equal(again.slowdown, model.distribution.centre.slowdown)
    assert np.array_equal(again.time_imputed, model.distribution.centre.time_imputed)
    assert not any("became" in sentence for sentence in sentences(slow.drop_vars("started")))


def ordered_sweep(seed):
    """Sixteen contexts one after the other, three runs each, 2 % noise, on a steady machine."""
    rng = np.random.default_rng(seed)
    contexts = np.array([[ways, clock] for ways in (1.0, 2, 4, 8) for clock in (1.0, 1.5, 2, 3)])
    misses = 1e6 * (1.0 + 8.0 / contexts[:, 0])
    seconds = 0.5 / contexts[:, 1] + 3e-7 * misses
    seconds += np.where(contexts[:, 0] < 2, 0.1 / contexts[:, 1] ** 2, 0.0)
    duration = seconds[:, None] * np.exp(0.02 * rng.standard_normal((16, 3)))
    missed = misses[:, None] * np.exp(0.01 * rng.standard_normal((16, 3)))
    counts = np.stack([np.full((16, 3), 1e9), missed], axis=2)[:, :, None]
    started = np.append(0.0, np.cumsum(duration.ravel())[:-1]).reshape(16, 3)
    dataset = msbgen.make_profiles(
        counts, duration, contexts, interval=1.001 * float(duration.max()),
        resources={"ways": {"units": "1"}, "clock": {"units": "GHz"}},
        counters={"instructions": {}, "misses": {}}, attrs={"progress": "instructions"},
    )  # fmt: skip
    return dataset.assign(started=(("context", "run"), started, {"units": "s"}))


@pytest.mark.parametrize("seed", [16, 20, 27, 30, 34])
def test_no_drift_is_corrected_that_the_order_of_contexts_explains(seed):
    findings = known_faults(Profiles.of(ordered_sweep(seed)))
    assert not [fault for fault in findings.corrected if fault.kind == "drift"]


def test_a_drift_that_the_order_of_contexts_may_explain_is_a_doubt():
    steady = ordered_sweep(3)
    slower = 1.0 + 0.2 * steady["started"] / float(steady["started"].max())
    findings = known_faults(Profiles.of(steady.assign(duration=steady["duration"] * slower)))
    (drift,) = [fault for fault in findings if fault.kind == "drift"]
    assert drift.is_doubt
    assert not findings.corrected
    assert "Nothing is changed" in drift.sentence(str, [])


@pytest.fixture(scope="module")
def slow_in_one(clean):
    """Runs that are slow in one context, and a model of them."""
    slow = spoilt(clean, slow=[(9, 2.2)])
    return slow, msbgen.fit_profiles(slow, COARSE)


def test_a_model_file_holds_its_findings(slow_in_one, tmp_path):
    slow, fitted = slow_in_one
    model = msbgen.calibrate_model(fitted, slow)
    assert model.calibration.left_out.weight[model.calibration.left_out.context == 9].sum() == 0
    model.save(tmp_path / "model.nc")
    again = msbgen.CalibratedModel.load(tmp_path / "model.nc")
    assert again.findings == model.findings
    assert np.array_equal(again.distribution.centre.slowdown, model.distribution.centre.slowdown)
    query = np.array([[5.0, 1.4]])
    assert again.duration_bound(query, 0.2) == pytest.approx(model.duration_bound(query, 0.2))


@pytest.mark.usefixtures("coarse")
def test_every_run_is_kept_where_all_are_trusted(slow_in_one, tmp_path, capsys):
    """By the library and by the verbs, which name a single fault in full."""
    slow, repaired = slow_in_one
    kept = msbgen.fit_profiles(slow.assign_attrs(keep_all=1), COARSE)
    assert repaired.findings
    assert not kept.findings
    assert "faults" not in kept.attrs
    assert known_faults(Profiles.of(slow.assign_attrs(keep_all=1))) == Findings()
    times = [model.distribution.centre.known_states()[9, :, 0].sum() for model in (kept, repaired)]
    assert times[0] == pytest.approx(2.2 * times[1], rel=0.1)
    source, model = str(tmp_path / "slow.nc"), str(tmp_path / "m.nc")
    msbgen.write_profiles(slow, source)
    generating = ["generate", source, "-o", str(tmp_path / "o.nc"), "--contexts", "grid:1x1"]
    assert main([*generating, "--kind", "mean", "--model", model]) == 0
    assert "took 2.2" in capsys.readouterr().err
    assert main([*generating, "--kind", "mean", "--force", "--keep-all"]) == 0
    assert "took" not in capsys.readouterr().err
    bounding = ["bound", "--contexts", "grid:1x1", "--miscoverage", "0.5", "--keep-all"]
    assert main([*bounding, source]) == 0
    assert main([*bounding, model]) == 2
    assert "--keep-all needs the measured profiles" in capsys.readouterr().err


@pytest.mark.usefixtures("coarse")
def test_comparisons_and_reports_trust_every_run_where_all_are_kept(
    slow_in_one, clean, tmp_path, capsys, monkeypatch
):
    old, new = str(tmp_path / "slow.nc"), str(tmp_path / "new.nc")
    msbgen.write_profiles(slow_in_one[0], old)
    msbgen.write_profiles(clean, new)
    fitted = []

    def fit(profiles, *given, **settings):
        fitted.append(profiles.keeps_all)
        raise msbgen.ArgumentError("no fit here.")

    monkeypatch.setattr("msbgen.output.batch.report_data.fit_model", fit)
    printed = []
    for flag in ([], ["--keep-all"]):
        assert main(["compare", old, new, *flag]) == 0
        printed.append(capsys.readouterr().out)
        assert main(["report", old, "-o", str(tmp_path / "r.html"), *flag]) != 0
    assert printed[0] != printed[1]
    assert fitted == [False, True]


@pytest.mark.usefixtures("coarse")
def test_a_batch_trusts_every_run_where_all_are_kept(slow_in_one, tmp_path):
    msbgen.write_profiles(slow_in_one[0], tmp_path / "slow.nc")
    (tmp_path / "tasks.toml").write_text(
        '[defaults]\nkeep_all = true\nsteps = []\nkinds = ["mean"]\ncontexts = "grid:1x1"\n'
        '[[task]]\nmeasured = "slow.nc"\n'
    )
    assert main(["batch", str(tmp_path / "tasks.toml"), "-o", str(tmp_path / "out")]) == 0
    assert "faults" not in msbgen.read_profiles(tmp_path / "out" / "slow" / "mean.nc").attrs


def test_an_absurd_count_of_a_cut_run_is_named(clean):
    broken = partials.cut(clean.copy(deep=True), [(3, 0), (3, 1)])
    broken["cache_misses"][3, 1, 2] = 2.0**48
    (sentence,) = sentences(broken)
    assert "'cache_misses' is" in sentence
    assert "context 3 (" in sentence


def test_energy_that_grows_with_time_explains_no_slow_context(three_runs):
    slow = spoilt(three_runs, slow=[(9, 2.2)])
    metered = slow.assign(energy=slow["instructions"] * 0 + 0.05)  # 5 W, whatever runs
    metered["energy"].attrs = {"role": "counter", "units": "J", "long_name": "energy"}
    for clock in ("instructions", "time"):
        metered.attrs["progress"] = slow.attrs["progress"] = clock
        assert known_faults(Profiles.of(metered)) == known_faults(Profiles.of(slow)) != Findings()


def test_profiles_for_comparisons_are_without_faults(faulty, findings):
    sound = without_faults(Profiles.of(faulty), findings)
    missing = np.isnan(sound.duration)
    assert missing[[2, 9, 16]].all()
    assert [tuple(at) for at in np.argwhere(missing) if at[0] not in (2, 9, 16)] == [(5, 1)]
    repaired, beside = sound.counts[12, 0, 2:5, 1], Profiles.of(faulty).counts[12, 0, [2, 4], 1]
    assert repaired.tolist() == pytest.approx([beside[0], beside.mean(), beside[1]])
    assert Profiles.of(faulty).counts[12, 0, 3, 1] == 2.0**48
    single = spoilt(faulty.isel(run=[0]), stretched=[(5, 0, 2.5, 0.4, 0.6)])
    alone = single.isel(run=0)  # one profile each
    known = known_faults(Profiles.of(alone))
    missing = [np.isnan(without_faults(Profiles.of(o), known).duration) for o in (single, alone)]
    assert missing[0][5, 0]
    assert np.array_equal(*missing)
    assert sound.held[[5, 12]].any(axis=2).sum(axis=1).tolist() == [2, 3]


def test_a_model_file_of_damaged_findings_is_refused(slow_in_one):
    _, model = slow_in_one
    for damage in ("", '"kind": "haunted", '):
        dataset = content(model)
        dataset.attrs["labels"] = dataset.attrs["labels"].replace('"kind": "slow", ', damage)
        with pytest.raises(msbgen.ProfileError, match=r"kind of 'findings.faults.0'"):
            type(model).of_file(sealed(dataset))


def test_too_few_contexts_have_no_faults(clean):
    few = clean.isel(context=slice(0, 4))
    assert not found(few)


@pytest.mark.parametrize(
    "spoil", [partials.in_groups, lambda ds: partials.cut(ds, [(c, 1) for c in range(20)])]
)
def test_a_slow_context_is_named_among_partial_measurements(clean, spoil):
    assert sentences(spoil(clean.copy(deep=True))) == []
    (sentence,) = sentences(spoil(spoilt(clean, slow=[(9, 2.0)])))
    assert f"context 9 (cache_ways={clean['cache_ways'].values[9]:g}" in sentence


def throttled_runs(slowed=()):
    """Three runs in 25 contexts; a cap binds in that of least bandwidth and fastest clock.

    The contexts `slowed` took 1.6 times as long.
    """
    rng = np.random.default_rng(0)
    contexts = np.array(
        [(b, f) for b in (1.0, 2.0, 4.0, 8.0, 16.0) for f in (0.05, 0.1, 0.2, 0.4, 2.0)]
    )
    misses, runs = rng.permutation(np.geomspace(200.0, 3000.0, 100)), []
    for i, (bandwidth, clock) in enumerate(contexts):
        time = np.maximum(0.5 / clock + 1e-4 * misses, misses / (1500.0 * bandwidth))
        time *= 1.6 if i in slowed else 1.0
        for _ in range(3):
            ends = np.append(0.0, np.cumsum(time * np.exp(0.01 * rng.standard_normal())))
            seen = np.append(np.arange(0.0, ends[-1], 0.5), ends[-1])
            work = np.interp(seen, ends, np.linspace(0.0, 1e6, 101))
            missed = np.interp(seen, ends, np.append(0.0, np.cumsum(misses)))
            runs.append((np.diff(np.column_stack([work, missed]), axis=0), ends[-1]))
    longest = max(len(counts) for counts, _ in runs)
    counts = np.full((len(runs), longest, 2), np.nan)
    for row, (own, _) in zip(counts, runs):
        row[: len(own)] = own
    duration = np.array([d for _, d in runs]).reshape(25, 3)
    return Measurements(counts.reshape(25, 3, longest, 2), duration, contexts, 0.5, 1)


def test_a_corner_at_a_cap_is_not_slow_but_a_slow_context_is():
    assert not find_faults(throttled_runs())
    assert places(find_faults(throttled_runs(slowed=(12,)))) == {("slow", 12)}
