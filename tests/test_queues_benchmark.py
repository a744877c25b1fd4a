"""The benchmark of queues, on made-up programs and logs."""

import json

import numpy as np
import pytest
import queues_data
import queues_study
import tables

from msbgen.systems.machines import queue


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    seconds = np.exp(rng.normal([0.0, 1.0], 0.5, (20, 2)))
    noise = rng.lognormal(0, 0.1, (20, 2, 2))
    noise[:, [0, 1], [0, 1]] = 1.0
    suits = np.tile([[True, False], [False, True]], (10, 1))
    return queues_data.Vectors({"a": 8, "b": 8}, seconds, seconds[:, None] * noise, suits)


@pytest.fixture
def log():
    return queues_data.made_up(400)


def test_the_logged_time_is_that_on_the_source_machine(vectors, log):
    jobs = queues_data.draw(vectors, log, 3, jobs=300)
    known = jobs.runtime == jobs.estimate
    assert (known.sum(axis=1) == 1).all()
    assert 100 < known[:, 0].sum() < 200
    first = np.flatnonzero(np.isclose(log.submission, jobs.submission[0]))[0]
    np.testing.assert_allclose(jobs.runtime[known], log.runtime[first : first + 300])
    ratio = np.sort(np.unique((jobs.runtime[:, 1] / jobs.runtime[:, 0]).round(9)))
    wanted = np.sort(vectors.seconds[:, 1] / vectors.seconds[:, 0]).round(9)
    np.testing.assert_allclose(ratio, wanted)
    assert set(jobs.nodes) == set(queues_data.WIDTHS)
    again = queues_data.draw(vectors, log, 3, jobs=300)
    np.testing.assert_array_equal(again.estimate, jobs.estimate)


def test_ratios_are_to_the_best_of_the_paper_and_tables_are_written(
    vectors, log, tmp_path, monkeypatch
):
    page = tmp_path / "queues.md"
    page.write_text((tables.ROOT / "benchmarks" / page.name).read_text(encoding="utf-8"))
    publish = tables.publish
    monkeypatch.setattr(queues_study, "publish", lambda found: publish(found, [tmp_path]))
    for module in (queues_study, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    draw = queues_data.draw
    for name, value in {
        "programs": lambda: vectors,
        "graphs": lambda data: vectors,
        "logged": lambda data: log,
        "draw": lambda v, log, seed, widths: draw(v, log, seed, 60, widths),
        "SEEDS": (0, 1),
        "ARRIVALS": ("at once", 0.7),
        "OTHER_WIDTHS": ((1,),),
    }.items():
        monkeypatch.setattr(queues_study, name, value)
    queues_study.run(tmp_path, ["programs"])
    queues_study.run(tmp_path, ["graphs", "widths"])
    stored = json.loads((tmp_path / "queue.json").read_text())
    assert stored.keys() == {"programs", "graphs", "widths"}
    found = stored["programs"]["one_queue"]["load 0.7"]
    seeds = []
    for seed in queues_study.SEEDS:
        jobs = queue.at_load(draw(vectors, log, seed, 60), vectors.machines, 0.7)
        ours = queue.simulate_queue(jobs, vectors.machines)
        how = {"queue": "one", "rng": 0}
        others = (
            queue.simulate_queue(jobs, vectors.machines, placement=p, **how)
            for p in ("greedy", "user", "round_robin")
        )
        spans = [queue.makespan(jobs, other) for other in others]
        seeds.append(queue.makespan(jobs, ours) / min(spans))
    assert all(a >= b - 1e-12 for a, b in zip(found["ratios_of_seeds"]["makespan"], seeds))
    assert found["ratios"]["makespan"] == np.mean(found["ratios_of_seeds"]["makespan"])
    assert f"| {found['makespan_over_bound']:.3f} |" in page.read_text(encoding="utf-8")
    assert (tmp_path / "queue.png").is_file()
