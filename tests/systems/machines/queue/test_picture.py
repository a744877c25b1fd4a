"""Tables and curves of placements."""

import pytest

from msbgen.systems.machines.queue.picture import plot_queues, queue_figure, queue_table


def rows():
    return [
        {"arrivals": arrival, "placement": placement, "queue": queue, "times": times,
         "makespan_over_bound": k + 1.5, "slowdown": 10.0 * k + 1, "slowdown_against_fastest": 7.0}
        for k, (arrival, placement, queue, times) in enumerate(
            (a, p, q, t) for a in ("at once", 0.9, 0.5) for p in ("aware", "greedy")
            for q in ("machine", "one") for t in ("estimated", "true")
        )
    ]  # fmt: skip


def test_a_line_has_both_times():
    lines = queue_table(rows()).splitlines()
    assert len(lines) == 2 + 12 + 1
    assert lines[2].split("   ")[0] == "at once"
    assert "1.500 (2.500)" in lines[2]
    assert "load 0.9" in queue_table(rows())
    known = [row for row in rows() if row["times"] == "true"]
    assert "(" not in queue_table(known)
    assert len(queue_table(known).splitlines()) == 2 + 12


def test_curves_run_from_the_lowest_load_to_all_at_once(tmp_path):
    pytest.importorskip("matplotlib")
    figure = queue_figure(rows())
    assert len(figure.axes) == 3
    axis = figure.axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == [
        "load 0.5", "load 0.9", "at once"
    ]  # fmt: skip
    assert [t.get_text() for t in axis.get_legend().get_texts()] == [
        "aware", "aware, one", "greedy", "greedy, one"
    ]  # fmt: skip
    assert len(axis.lines) == 8
    assert list(axis.lines[0].get_ydata()) == [17.5, 9.5, 1.5]
    assert list(axis.lines[1].get_ydata()) == [18.5, 10.5, 2.5]
    plot_queues(rows(), tmp_path / "q.png")
    assert (tmp_path / "q.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(FileExistsError):
        plot_queues(rows(), tmp_path / "q.png")
