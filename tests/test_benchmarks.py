"""What the benchmarks make of their figures; the figures themselves are no test's business."""

import contextlib
import dataclasses
import json
import math
import re
import resource
from graphlib import TopologicalSorter

import allocation_replay
import allocation_study
import bench_bridge
import bench_generate
import bench_import
import bounds_study
import compare_real
import fidelity_peers
import fidelity_scores
import kills
import mutate
import mutate_answers
import mutate_files
import mutate_originals
import numpy as np
import partial_study
import plans_study
import platform_study
import pytest
import reproduce
import runtimes_cells
import runtimes_fits
import runtimes_networks
import runtimes_peers
import runtimes_study
import speed_study
import spinning
from runtimes_fits import Case, Fits
from tables import PLACES, PROFILES, RESULTS, markdown, publish
from targets import Figure, figures
from timing import replaced, run_python, standing_in

import msbgen
from conftest import synthetic_task
from msbgen import platform
from msbgen.cli.main import main
from msbgen.data.profiles import Profiles
from msbgen.data.schema import duration_array
from msbgen.sources.measure import parse_perf
from msbgen.systems.phases import phase_table
from msbgen.systems.realtime import Allocator, Task, TaskSet
from msbgen.systems.runtimes import embeddings, towers
from msbgen.systems.runtimes import predictor as completion
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.towers import TowerSettings

pytestmark = pytest.mark.usefixtures("coarse")  # no test here is one of the models' accuracy

GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])
PAIR = {"n": 1000, "epsilon": 0.1, "notes": {"pot sinkhorn": "does not reach the target"}}


def test_a_goal_is_a_lower_or_an_upper_bound():
    assert Figure("a", 5.0, 5.0, True, "×").verdict == "met"
    assert Figure("a", 4.9, 5.0, True, "×").verdict == "missed"
    assert Figure("a", 4.9, 5.0, False, "s").verdict == "met"
    assert Figure("a", 5.1, 5.0, False, "s").cells() == ["a", "5.1 s", "≤ 5 s", "missed"]


def test_the_fastest_variant_of_a_peer_counts_and_a_missing_peer_is_named():
    rows = [{**PAIR, "ratio": {"msbgen": 1.0, "ott kernel": 30.0, "ott lse": 20.0}}]
    pot, ott = figures({"bridge": {"pair": rows}})
    assert math.isnan(pot.value)
    assert pot.cells()[1:] == ["—", "≥ 6 ×", "pot sinkhorn does not reach the target"]
    assert (ott.value, ott.target, ott.verdict) == (20.0, 15.0, "met")
    (_, missing) = figures({"bridge": {"pair": [{**PAIR, "ratio": {"msbgen": 1.0}}]}})
    assert missing.verdict == "peer not installed"


def test_a_process_reports_its_peak_memory_and_its_failure():
    run = run_python(["-c", "print(len(bytearray(2 ** 29)))"])
    assert run.output == f"{2**29}\n"
    # a process begins as a copy of the one that starts it, which may have held more
    own = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert 2**29 < run.peak_bytes < max(2**30, 1.1 * own)
    assert run.cpu_seconds > 0
    with pytest.raises(RuntimeError, match="ended with 3"):
        run_python(["-c", "raise SystemExit(3)"])


@pytest.mark.parametrize("name", list(fidelity_scores.ABLATIONS))
def test_every_replacement_of_an_ablation_is_called(name, monkeypatch):
    settings, stand_ins = fidelity_scores.ABLATIONS[name]
    called = set()
    for place, stand_in in stand_ins.items():

        def ask(*given, place=place, stand_in=stand_in, **named):
            called.add(place)
            return stand_in(*given, **named)

        monkeypatch.setattr(place, ask)
    train = synthetic_task(GRID, n_runs=2)
    small = dataclasses.replace(settings, bins=40, segments=10)
    made = msbgen.fit_profiles(train, small).generate([[3.0, 1.2]], kind="sample")
    assert np.isfinite(made["duration"].values).all()
    assert called == set(stand_ins)


def test_a_table_replaces_the_one_between_its_markers(tmp_path):
    page = tmp_path / "study.md"
    text = "before\n<!-- results: {} -->\nold\n<!-- end -->\nafter\n"
    page.write_text(text.format("speed") + text.format("tasks"))
    publish({"speed": markdown(["a", "b"], [["1", "2"]])}, [tmp_path])
    first, second = page.read_text().split("after\n")[:2]
    assert first == (
        "before\n<!-- results: speed -->\n| a | b |\n| --- | --- |\n| 1 | 2 |\n<!-- end -->\n"
    )
    assert second == text.format("tasks").removesuffix("after\n")
    with pytest.raises(LookupError, match="no page has a place for the table 'other'"):
        publish({"other": ""}, [tmp_path])


def test_each_partial_study_is_compared_with_its_limit():
    studies = {case: partial_study.Study("gzip", "27x3", case) for case in partial_study.CASES}
    assert {s.limit.case for c, s in studies.items() if c != "b"} == {"limit"}
    assert studies["b"].limit.limit == studies["b"].limit
    assert studies["e lost"].name == "27x3-gzip-e-lost"
    figures = {"ndtw": 0.2, "ndtw_scaled": 0.2, "duration_error": 0.1}
    done = {
        studies["a"].limit: {"limit": figures},
        studies["a"]: {"partial": {**figures, "ndtw": 0.3}},
    }
    found = partial_study._beside_limit(done, studies["a"])
    table = partial_study.errors_table({"gzip": {"a": found}, "zstd": {}})
    assert "| a | 1 | partial | 1.50 (1.50) | 1.00 (1.00) | 10.00% | refused | refused |" in table


def test_the_tables_of_the_pages_are_those_of_the_stored_results():
    tables = reproduce.tables()
    places = {}
    for page in [p for folder in PLACES for p in folder.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for name, table in re.findall(r"<!-- results: (.*?) -->\n(.*?)\n<!-- end -->", text, re.S):
            assert table == tables[name], (page, name)
            places[name] = page
    assert places.keys() == tables.keys()


def test_no_script_imports_itself_through_others():
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in RESULTS.parent.glob("*.py")}
    named = {
        name: set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE)) & scripts.keys()
        for name, text in scripts.items()
    }
    assert len(list(TopologicalSorter(named).static_order())) == len(scripts)


def test_the_stored_results_have_every_figure():
    results = {n: json.loads((RESULTS / f"{n}.json").read_text()) for n in speed_study.PARTS}
    found = figures(results)
    assert len(found) > 25
    assert len({figure.what for figure in found}) == len(found)
    assert all(figure.value > 0 for figure in found)
    assert [f"{f.value:.6g}" for f in found] == [
        f"{row['value']:.6g}" for row in json.loads((RESULTS / "speed.json").read_text())["figures"]
    ]


def test_a_function_is_replaced_in_every_module_for_a_while():
    from msbgen.engine.generate import model, progress

    def stand_in():
        raise AssertionError

    part = progress.resample
    with standing_in(part, stand_in):
        assert progress.resample is model.resample is stand_in
    assert progress.resample is model.resample is part
    with pytest.raises(LookupError, match="nowhere"), standing_in(stand_in, part):
        pass


# ------------------------------------------------------------------- each benchmark, in small


def test_the_bridge_is_as_accurate_as_its_peers(monkeypatch):
    monkeypatch.setattr(bench_bridge, "HARD_ITERATIONS", 10)
    rng = np.random.default_rng(0)
    pair = bench_bridge.bench_pair(30, 0.1, 1, rng)
    assert all(error <= 1.1e-6 for error in pair["l1_error"].values())
    assert pair["ratio"]["msbgen"] == 1.0
    assert pair["seconds"].keys() >= {"msbgen", "pot sinkhorn", "pot sinkhorn_log"}
    chain = bench_bridge.bench_chain(20, 3, 0.1, 1, rng)
    assert max(chain["l1_error"].values()) <= 1e-6
    assert all(row["converged"] for row in bench_bridge.bench_hard(2, (1.0, 0.1), True, rng))
    assert bench_bridge.bench_pass(50, 2, rng)["ratio"] > 0
    assert bench_bridge.bench_points((20, 40), 0.1, 1)["sizes"] == [20, 40]
    assert bench_bridge.bench_snapshots((2, 3), 20, 0.1, 1)["sizes"] == [1, 2]
    assert list(bench_bridge.parts(quick=True)) == list(bench_bridge.PARTS)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A small task where the benchmarks look for what ships."""
    ways, clock = np.meshgrid([2.0, 3.0, 4.0, 6.0, 8.0], [1.0, 1.25, 1.5, 1.75, 2.0])
    known = np.stack([ways.ravel(), clock.ravel()], axis=1)
    folder = tmp_path / "profiles"
    folder.mkdir()
    msbgen.write_profiles(synthetic_task(known), folder / "small.nc")
    others = synthetic_task(np.array([(2.5, 1.1), (5.0, 1.6), (7.0, 1.9)]), n_runs=20)
    msbgen.write_profiles(others, folder / "small-truth.nc")
    for module in (bounds_study, bench_generate):
        monkeypatch.setattr(module, "PROFILES", folder)
    return folder


def test_a_whole_job_reports_the_time_of_each_stage(shipped, tmp_path):
    row = bench_generate.whole_job("small", 5, tmp_path)
    assert row["stages"].keys() >= {"read", "trend", "deconvolution", "bridge", "generate sample"}
    # a stage is never counted within another one
    assert 0 < sum(row["stages"].values()) <= row["seconds"]
    for kind in bench_generate.KINDS:
        assert msbgen.read_profiles(tmp_path / f"{kind}.nc").sizes["context"] == 5


def test_bounds_are_scored_on_contexts_without_calibration(shipped, monkeypatch):
    monkeypatch.setattr(bounds_study, "RATES", (0.3, 0.1))
    scored = bounds_study.score_bounds("small")
    for rate, row in scored["rates"].items():
        assert 1 - float(rate) - 0.1 <= row["conformal"]["coverage"] <= 1
        for name in ("conformal", "gaussian"):
            assert -0.05 < row[name]["margin"] < 0.2
    wider = [row["conformal"]["margin"] for row in scored["rates"].values()]
    assert wider == sorted(wider)


def test_a_plan_is_compared_by_the_time_to_the_best_other_error():
    # errors fall with the time's square root; the plan needs twice the time of the best other
    share = {"plan": 2.0, "random": 1.0, "sobol": 1.5, "factorial": 4.0}
    cells = {
        f"gzip/{design}/1/0/{budget}": {"error": (factor / budget) ** 0.5}
        for design, factor in share.items()
        for budget in plans_study.BATCHES
    }
    found = plans_study.compare(cells)["tasks"]["gzip"]
    assert found["best_other"] == "random"
    # the last one lies beyond the plan's last budget, and counts as a lower bound
    assert found["not_reached"] == [600]
    inside = [found["ratios"][b] for b in plans_study.BUDGETS[:-1]]
    np.testing.assert_allclose(inside, 2.0, rtol=1e-9)


def test_a_replayed_trace_agrees_with_the_shipped_truth():
    trace = platform_study.read_trace(msbgen.shipped_file("traces/gzip.nc"))
    truth = msbgen.read_profiles(msbgen.shipped_file("gzip-truth.nc"))
    found = platform_study.agreement(trace, truth.isel(context=slice(None, None, 20)))
    assert found["duration_error_max"] < 3  # [%]
    assert abs(found["instructions_bias"]) < 0.1


NEEDS = {"progress/gaussian_process": "sklearn", "progress/boosting": "xgboost"}
# Means weighted by distance do not pass through what they learned from, nor do trees.
SMOOTH = {"progress/kernel_mean": 0.1, "whole_runs/mean": 0.1, "progress/boosting": 0.025}


@pytest.mark.parametrize("name", fidelity_peers.PEERS)
def test_a_peer_reproduces_known_contexts(name, monkeypatch):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    monkeypatch.setattr(fidelity_peers, "BINS", 20)
    monkeypatch.setattr(fidelity_peers, "SEGMENTS", 10)
    monkeypatch.setattr(fidelity_peers, "ROUNDS", (10, 40))
    train = synthetic_task(GRID, n_runs=2)
    made = fidelity_peers.PEERS[name](train, GRID[[0, 4]])
    wanted = msbgen.evaluate.mean_profiles(train)["duration"].values[[0, 4]]
    np.testing.assert_allclose(made["duration"].values, wanted, rtol=SMOOTH.get(name, 0.005))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """One small file of the kinds that are made quickly."""
    folder = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:
        for slow in ("_make_graphs", "make_runtimes"):
            patch.setattr(mutate_originals, slow, lambda: None)
        mutate.make_originals(folder)
    return folder


def test_damaged_inputs_are_refused_in_a_sentence_or_answered(originals, monkeypatch):
    verbs = {"check", "replay", "predict", "import", "allocate"}
    quick = [
        reader
        for reader in mutate.every_reader()
        if (verbs & {*reader.verb} or "/" in reader.original)
        and not {"graph", "runtime"} & {*reader.verb}
        and reader.original != "rt.nc"
    ]
    forms = {reader.call.__self__.reader.format for reader in quick if reader.call}
    assert len(forms) == 7
    monkeypatch.setattr(mutate, "every_reader", lambda: quick)
    verdicts = mutate.try_some(originals, 0, range(-len(quick), 40))
    assert [trial.why for trial in verdicts if trial.verdict == mutate.FAILED] == []
    assert {trial.verdict for trial in verdicts[: len(quick)]} == {mutate.ANSWERED}
    assert sum(trial.verdict == mutate.REFUSED for trial in verdicts) > 16
    found = mutate.counted([(reader.kind, trial) for reader, trial in zip(quick, verdicts)])
    assert len(found) == 5
    total = mutate.mutate_table({"0": found, "1": found}).splitlines()[-1]
    assert total.startswith(f"| all, seed 0, 1 | {2 * len(quick)} | {2 * len(quick)} | 0 | 0 | ")


@pytest.mark.parametrize(
    ("deed", "wanted"),
    [
        ("raise ValueError('ours.')", "printed more than messages"),
        ("while True: pass", "died of SIGXCPU"),
        ("faulthandler.disable(); os.kill(os.getpid(), 11)", "died of SIGSEGV"),
        ("numpy.ones(2**28)", "exit code 1"),
        ("open('forgotten', 'w').close()", "left forgotten"),
        ("print('runtime  nan s')", "the results say 'nan'"),
        ("print('msbgen: what?!', file=sys.stderr); code = 3", "no clear sentence"),
    ],
)
def test_what_a_command_must_not_do_is_a_failure(originals, monkeypatch, deed, wanted):
    def misbehave(arguments):
        names = {"code": 0}
        exec(f"import faulthandler, numpy, os, sys\n{deed}", names)
        return names["code"]

    first = mutate.every_reader()[:1]
    # one second of CPU where all of it is taken, two where nothing shall run out of it
    monkeypatch.setattr(mutate, "SECONDS", -1 if deed.startswith("while") else 0)
    monkeypatch.setattr(mutate, "MEMORY", 2**30)
    monkeypatch.setattr(mutate, "command", misbehave)
    monkeypatch.setattr(mutate, "every_reader", lambda: first)
    trial = mutate.try_one(originals, 0, 0)
    assert trial.verdict == mutate.FAILED
    assert wanted in trial.why


def test_a_forged_model_is_refused_for_what_it_holds(originals, tmp_path):
    rng, messages = np.random.default_rng(0), set()
    for _ in range(30):
        mutate_files.spoil_file(originals / "model-kernels.nc", tmp_path / "m.nc", rng)
        try:
            msbgen.kernels.KernelPredictor.load(tmp_path / "m.nc")
        except msbgen.ProfileError as error:
            if "was changed since" not in str(error):
                messages.add(str(error))
        if len(messages) > 5:
            break
    assert len(messages) > 5


def test_a_negative_or_infinite_figure_is_a_failure(measured):
    mutate_answers.doubt(measured)
    measured["duration"][0, 0] = np.nan  # a run that was not made
    mutate_answers.doubt(measured)
    for value in (-1.0, np.inf):
        measured["duration"][0, 0] = value
        with pytest.raises(mutate_answers.DoubtError, match="'duration' is"):
            mutate_answers.doubt(measured)


def test_a_spinning_program_has_more_instructions_at_a_higher_clock():
    whole = platform.read_trace(PROFILES / "traces" / "gzip.nc")
    program = spinning.spinning(whole.isel(interval=slice(0, 400)), 5)
    clocks = np.array([[11, 700, f] for f in (1.2, 1.8, 2.3)])
    measured = program.replay(clocks, 12, rng=1)
    counts, duration = Profiles.of(measured).counts, duration_array(measured)
    work, requests, _ = np.nansum(counts, axis=2).mean(axis=1).T
    assert 0.05 < work[2] / work[0] - 1 < 0.15
    assert work[0] < work[1] < work[2]
    assert np.ptp(requests) / requests.mean() < 1e-3
    waits = program.cycles(2.3)
    assert np.sort(waits)[-10:].sum() > 0.3 * waits.sum()
    again = program.replay(clocks[1:2], 2, rng=1)
    np.testing.assert_array_equal(duration_array(again)[0], duration[1, :2])
    assert len(np.unique(duration)) == duration.size


def test_jobs_on_their_traces_last_as_long_as_runs_do():
    """One task alone on a core, whose allocation cannot change: beside replayed runs."""
    programs = allocation_replay.Programs(["gzip"])
    every = platform.platform_contexts("grid:2x2x2")
    trace = platform.read_trace(msbgen.shipped_file("traces/gzip.nc"))
    runs = platform.replay_trace(trace, every, 30)
    table = phase_table(runs)
    task_set = TaskSet(1, {"cache_ways": 20.0, "bandwidth": 70.0}, (Task("a", "gzip", 2.0),))
    allocator = Allocator({"gzip": table}, task_set.capacity, 1)
    ratio = allocation_replay.replay_set(
        task_set, allocator, programs, {"gzip": table}, horizon=60.0, seed=1
    )
    (row,) = np.flatnonzero((every == [20.0, 70.0, 2.3]).all(axis=1))
    lasted = runs["duration"].values[row]
    assert 2.0 * ratio.mean() == pytest.approx(lasted.mean(), rel=0.01)
    assert 2.0 * ratio.std() == pytest.approx(lasted.std(), rel=0.5)


def test_distances_of_distributions_and_their_intervals():
    assert allocation_study.kolmogorov([0.0, 1.0], [0.0, 1.0]) == 0.0
    assert allocation_study.kolmogorov([0.0, 1.0], [2.0, 3.0]) == 1.0
    assert allocation_study.kolmogorov([0.0, 1.0, 2.0, 3.0], [1.5]) == 0.5
    mean, half = allocation_study.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(1.96 / math.sqrt(3))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_random_recordings_are_read_with_their_totals(form):
    text, totals = bench_import.recording(np.random.default_rng(0), 0.3, form)
    found = parse_perf(text, form)
    assert found.events == bench_import.EVENTS
    np.testing.assert_array_equal(found.totals, totals)


# ----------------------------------------------------------------------------------- runtimes


def planted_runtimes(n=1500, shape=(8, 6)):
    """Runtimes of known factors as a dataset; features tell what matters."""
    rng = np.random.default_rng(0)
    workload, platform = (rng.integers(size, size=n) for size in shape)
    beside = np.where(rng.random(n) < 0.5, rng.integers(shape[0], size=n), -1)
    mine, theirs = rng.random(shape[0]), rng.random(shape[0])
    log = workload + 0.5 * platform + 0.3 * mine[workload] * platform
    log = log + np.where(beside >= 0, 0.3 * theirs[beside], 0.0) + 0.02 * rng.normal(size=n)
    return msbgen.runtimes.make(
        np.exp(log), workload, platform, beside[:, None], np.arange(n) // 2,
        workloads=[f"w{i}" for i in range(shape[0])], platforms=[f"p{i}" for i in range(shape[1])],
        workload_features={"length": np.arange(shape[0]), "mine": mine, "theirs": theirs},
        platform_features={"speed": np.arange(shape[1])},
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind", [runtimes_networks.NeuralNetwork, runtimes_networks.Attention], ids=lambda k: k.__name__
)
@pytest.mark.parametrize("slots", [0, 2])
def test_gradients_of_networks_equal_finite_differences(kind, slots):
    rng = np.random.default_rng(0)
    n, shape = 30, (6, 5)
    beside = rng.integers(-1, shape[0], (n, slots))
    beside[:10] = -1
    runs = Observations(
        rng.integers(shape[0], size=n), rng.integers(shape[1], size=n), beside, shape
    )
    features = (rng.normal(size=(size, 3)).astype(np.float32) for size in shape)
    network, target = kind(*features, rng), rng.normal(size=n).astype(np.float32)

    def loss():
        return float(((network.forward(runs) - target).astype(float) ** 2).sum())

    gradient = network.backward(2 * (network.forward(runs) - target))
    for parameter, wanted in zip(network.parameters, gradient):
        assert parameter.shape == wanted.shape
        flat = parameter.reshape(-1)
        for place in rng.integers(flat.size, size=2):
            before, step = flat[place], 5e-3
            flat[place] = before + step
            high = loss()
            flat[place] = before - step
            difference = (high - loss()) / (2 * step)
            flat[place] = before
            assert wanted.reshape(-1)[place] == pytest.approx(difference, rel=0.02, abs=0.05)


def test_all_methods_for_runtimes_are_scored_on_the_same_splits(tmp_path, monkeypatch):
    monkeypatch.setattr(runtimes_networks.train, "__defaults__", (300,))
    monkeypatch.setattr(runtimes_networks.Layers.__init__, "__defaults__", (32,))
    for module in (runtimes_networks, runtimes_peers):
        monkeypatch.setattr(module, "BATCH", 128)
    monkeypatch.setattr(runtimes_peers, "STEPS", 500)
    monkeypatch.setattr(runtimes_peers, "MOST_TREES", 30)
    quick = TowerSettings(rank=8, hidden=16, steps=150, decay=0.0)
    monkeypatch.setattr(completion.RuntimePredictor, "_settings", lambda self: quick)
    fits, case = Fits(planted_runtimes(), tmp_path), Case("rows", 0.6, 0)
    known = fits.part(case).known
    names = ["default", "no rectifier", "interference discarded", *runtimes_peers.PEERS]
    errors, scored = {}, {}
    for name in names:
        if name == "boosting":
            pytest.importorskip("xgboost", reason="pip install .[bench]")
        fits.make(name, case)
        scored[name] = alone, beside = runtimes_study.score(fits, name, case)
        assert alone["observations"] + beside["observations"] == (~known).sum()
        errors[name] = alone["error"], beside["error"]
    assert errors["default"][0] < 0.05
    assert errors["linear scaling"][0] > 2 * errors["default"][0]
    assert errors["interference discarded"][1] > 2 * errors["default"][1]
    for name in ("neural network", "attention", "boosting"):
        assert errors[name][0] < 0.3  # of runtimes that range over a factor of 20,000
    scores = {n: {"rows 0.6": {"0": scored[n]}} for n in names}
    lead = runtimes_study.lead(scores)
    assert 0 < lead["next best peer"]["error"]["mean"] < 1


def test_bounds_of_left_out_cells_cover_more_hidden_cells_than_those_of_single_runs(monkeypatch):
    monkeypatch.setattr(runtimes_cells, "TABLES", 4)
    quick = TowerSettings(rank=4, hidden=8, steps=20)
    monkeypatch.setattr(completion.RuntimePredictor, "_settings", lambda self: quick)
    rows = runtimes_cells.measure()
    covered = {
        units: np.mean([row["coverage"] for row in rows if row["units"] == units])
        for units in ("cells", "single runs")
    }
    assert covered["single runs"] < covered["cells"]
    assert covered["cells"] > 0.85
    assert "| cells | all |" in runtimes_cells.table(rows)


def test_ablations_replace_the_named_parts_for_a_while():
    before = towers.LEAK
    with replaced(runtimes_fits.ABLATIONS["no rectifier"].replacements):
        assert towers.LEAK == embeddings.LEAK == 1.0
    assert towers.LEAK == embeddings.LEAK == before
    named = {name for name, _ in runtimes_fits.jobs()}
    assert named == {*runtimes_fits.MODELS, *runtimes_peers.PEERS, *runtimes_fits.ABLATIONS}


def test_a_kill_is_tried_and_another_result_is_a_fault(tmp_path):
    verb = kills.Verb("plan --levels a=1/2/4 --budget 2 -o out.csv")
    with contextlib.chdir(tmp_path):
        assert main(verb.line.split()) == 0
    wanted = kills.contents(tmp_path)
    assert list(wanted) == ["out.csv"]
    for expected, faults in ((wanted, []), ({}, ["called again, another result"])):
        row = kills.try_kill(verb, "SIGKILL", 0.02, tmp_path, tmp_path, expected)
        assert (row["ended"], row["faults"]) == (False, faults)
        table = kills.kills_table({"seed": 0, "rows": [{"verb": "plan", "seconds": 2.0, **row}]})
        assert f"| plan | 2.0 | 1 | 0 | 0 | 0 | {len(faults)} |" in table


def test_messages_of_kills_name_no_folder_of_a_machine():
    text = 'File "/usr/lib/dask/utils.py", line 4\nmsbgen: /tmp/a1/out: kept; see out/t/x.nc, 3/4.'
    assert kills.without_folders(text) == (
        'File "utils.py", line 4\nmsbgen: out: kept; see out/t/x.nc, 3/4.'
    )


def test_a_program_that_is_the_same_raises_no_alarm(tmp_path):
    """Both files exist, so that nothing is measured."""
    old = msbgen.read_profiles(msbgen.shipped_file("gzip.nc")).isel(context=slice(None, None, 12))
    old["load"] = 0.5 * old["duration"].notnull()
    began = np.arange(float(old["duration"].size)).reshape(old["duration"].shape)
    for name, delay in (("old", 0.0), ("new", 0.4)):
        old["started"] = ("context", "run"), began + delay, {"units": "s"}
        msbgen.write_profiles(old.assign_attrs(sweep="a"), tmp_path / f"out-{name}.nc")
    row = compare_real.compared(tmp_path, "-6", 0, 6)
    assert (row["verdict"], row["value"], row["alarm"]) == ("same", 1.0, False)
    assert not row["drift_noted"]
    assert 0.99 * 5000 < len(compare_real.text(5000)) <= 5000
