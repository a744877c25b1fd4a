"""The picture shows every run and every generated profile, where they are."""

import matplotlib.colors
import numpy as np
import pytest

from msbgen.answers.evaluate.baselines import mean_profiles, multilinear, nearest_context
from msbgen.core.errors import ArgumentError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    context_table,
    counter_names,
)
from msbgen.output.report.picture import plot_profiles, profile_figure, two_far_contexts


@pytest.fixture
def generated(measured, truth):
    wanted = context_table(truth)
    return {"nearest": nearest_context(measured, wanted), "linear": multilinear(measured, wanted)}


def lines(axis):
    """Lines of an axis by colour, each as (times, values), those of the legend alone left out."""
    found = {}
    for line in axis.get_lines():
        x, y = line.get_data()
        if len(x):
            found.setdefault(matplotlib.colors.to_hex(line.get_color()), []).append((x, y))
    return found


def test_every_run_and_every_generated_profile_is_drawn_where_it_is(generated, truth):
    contexts = [1, 0]
    figure = profile_figure(generated, truth, contexts)
    names = counter_names(truth)
    axes = np.array(figure.axes).reshape(len(names), len(contexts))
    for column, context in enumerate(contexts):
        assert axes[0, column].get_title() == Profiles.of(truth).describe_context(context)
        for row, name in enumerate(names):
            found = lines(axes[row, column])
            measured = found.pop(matplotlib.colors.to_hex("0.75"))
            assert len(measured) == truth.sizes["run"]
            for run, (x, y) in enumerate(measured):
                np.testing.assert_array_equal(x, truth["time"])
                np.testing.assert_array_equal(y, truth[name].values[context, run])
            assert list(found) == [matplotlib.colors.to_hex(f"C{i}") for i in range(2)]
            for ((x, y),), dataset in zip(found.values(), generated.values()):
                np.testing.assert_array_equal(x, dataset["time"])
                np.testing.assert_array_equal(y, dataset[name].values[context])


def test_all_of_it_is_inside_the_axes_and_named(generated, truth):
    figure = profile_figure(generated, truth, [0, 1])
    for axis in figure.axes:
        high = max(np.nanmax(y) for several in lines(axis).values() for _, y in several)
        last = max(x[np.isfinite(y)].max() for several in lines(axis).values() for x, y in several)
        assert axis.get_ylim()[0] == 0
        assert axis.get_ylim()[1] >= high
        assert axis.get_xlim()[1] >= last
    assert figure.axes[0].get_ylabel() == "instructions retired\nper interval"
    assert figure.axes[-1].get_xlabel() == "time [s]"
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "nearest",
        "linear",
        "measured runs",
    ]
    (title,) = [text.get_text() for text in figure.texts] or [figure.get_suptitle()]
    assert title == "synthetic: generated over measured profiles"


def test_a_profile_that_is_not_defined_leaves_its_line_out(measured, truth):
    undefined = mean_profiles(truth)
    for name in counter_names(undefined):
        undefined[name][0] = np.nan
    figure = profile_figure({"none": undefined}, truth, [0])
    assert figure.axes[0].get_xlim()[1] > 0.05


def test_the_picture_appears_whole_or_not_at_all(generated, truth, tmp_path, monkeypatch):
    path = tmp_path / "p.png"
    plot_profiles(generated, truth, [0, 1], path)
    whole = path.read_bytes()
    assert whole.startswith(b"\x89PNG")
    assert whole.endswith(b"IEND\xaeB`\x82")
    with pytest.raises(FileExistsError):
        plot_profiles(generated, truth, [0], path)

    def torn(figure, file, **options):
        file.write_bytes(whole[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", torn)
    with pytest.raises(KeyboardInterrupt):
        plot_profiles(generated, truth, [0], path, overwrite=True)
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_names_with_dollars_are_no_formulas(generated, truth, tmp_path):
    truth.attrs["task"] = r"cost $\frac$"
    truth["instructions"].attrs["long_name"] = "$x^$"
    labelled = {"$_$ of $^$": generated["linear"]}
    plot_profiles(labelled, truth, [0], tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_what_does_not_go_together_is_refused(generated, measured, truth):
    for contexts, message in (
        ([2], r"contexts is \[2\]; rows from 0 to 1"),
        ([-1], "rows from 0 to 1"),
        ([], "1 to 20 whole numbers"),
        ([0] * 30, "1 to 20 whole numbers"),
        ([0.5], "1 to 20 whole numbers"),
    ):
        with pytest.raises(ArgumentError, match=message):
            profile_figure(generated, truth, contexts)
    one = generated["linear"]
    for wrong, message in (
        (truth, "'it' is a dataset of runs; one profile per context"),
        (one.drop_vars("cache_misses"), "with counters instructions, cache_requests; those of"),
        (mean_profiles(measured), "of other contexts than the truth"),
        (one.isel(context=[1, 0]), "of other contexts than the truth"),
    ):
        with pytest.raises(ArgumentError, match=message):
            profile_figure({"it": wrong}, truth, [0])


def at(*contexts):
    """Profiles of nothing much in some contexts of two resources."""
    return make_profiles(
        np.ones((len(contexts), 1, 2, 1)), np.full((len(contexts), 1), 0.02), contexts,
        interval=0.01, resources={"ways": {"units": "1"}, "clock": {"units": "GHz"}},
        counters={"instructions": {}},
    )  # fmt: skip


def test_the_farthest_context_and_one_far_from_it_are_chosen():
    measured = at((0, 0), (10, 0), (0, 1), (10, 1))
    # in measured ranges: 0.1 from a corner, the middle, beside it, 0.3 from another corner
    unseen = at((1, 0), (5, 0.5), (5, 0.55), (7, 1))
    assert two_far_contexts(measured, unseen).tolist() == [1, 3]
    assert two_far_contexts(measured, at((5, 0.5))).tolist() == [0]
    assert Profiles.of(unseen).counts.shape == (4, 1, 2, 1)
