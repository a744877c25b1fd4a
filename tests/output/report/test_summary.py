"""The light of a report, and its three numbers."""

import pytest

from msbgen.output.report.formatting import Numbers, plain
from msbgen.output.report.summary import headline, summary_of, tiles

GOOD = {
    "error": 0.02, "time": 0.02, "over_halves": {}, "left_out": 0, "contexts": 12,
    "bounds": {"coverage": 0.95, "coverage_low": 0.9, "coverage_high": 0.99},
}  # fmt: skip


def changed(numbers, following=None, **held):
    """Numbers with a good model, but for some changes."""
    given = {**GOOD, **held}
    bounds = numbers["held_out"]["bounds"] | {"miscoverage": 0.05, "wanted": 0.95}
    new = numbers["held_out"] | given | {"bounds": bounds | given["bounds"]}
    plan = numbers["next"] | {"again": 0, "pays": 3} | (following or {})
    result = numbers | {"held_out": new, "next": plan}
    return result | {"summary": summary_of(result)}


CASES = [
    ({}, "green", "Reliable: errors are small and the bounds hold."),
    ({"time": 0.06}, "yellow", "Use with care: errors are noticeable."),
    ({"time": 0.06, "over_halves": {"duration": 1.4}}, "green", "Reliable: "),
    ({"error": 0.3}, "red", "Not reliable: errors are large."),
    ({"contexts": 5}, "yellow", "Use with care: few contexts were tested."),
    ({"bounds": {"coverage_high": 0.94}}, "red", "Not reliable: bounds fail too often."),
    (
        {"bounds": {"coverage_high": 0.94}, "left_out": 3},
        "yellow", "Use with care: bounds fail often at left-out contexts.",
    ),
    ({"bounds": {"coverage_high": 0.84}, "left_out": 3}, "red", "Not reliable: bounds fail too"),
    ({"following": {"again": 2}}, "yellow", "Use with care: some measurements look faulty."),
    ({"following": {"pays": 0}}, "green", "Reliable: "),
]  # fmt: skip


@pytest.mark.parametrize(("change", "light", "text"), CASES)
def test_the_light_is_that_of_the_worst_part(numbers, change, light, text):
    found = changed(numbers, **change)
    assert found["summary"]["light"] == light
    assert plain(headline(Numbers(found))).startswith(text)


def test_without_held_out_runs_nothing_is_called_reliable(numbers):
    none = numbers | {"held_out": {"missing": "Too few."}}
    none |= {"summary": summary_of(none)}
    assert none["summary"]["light"] == "yellow"
    assert plain(headline(Numbers(none))).startswith("Not tested: ")
    values = [plain(tile["value"]) for tile in tiles(Numbers(none))]
    assert values[:2] == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("following", "advice"),
    [({}, "Measure more"), ({"again": 1}, "Measure again"), ({"pays": 0}, "Stop")],
)
def test_three_numbers_say_error_bounds_and_what_to_measure(numbers, following, advice):
    found = changed(numbers, following, left_out=3)
    texts = [plain(tile["value"]).replace("\u00a0", " ") for tile in tiles(Numbers(found))]
    bounds = found["held_out"]["bounds"]
    held = bounds["runs"] - bounds["exceeded"]
    assert texts == ["2.0 %", f"{held} of {bounds['runs']}", advice]
    lines = [plain(tile["line"]) for tile in tiles(Numbers(found))]
    best = found["held_out"]["best"]["time"]["method"].replace("_", " ")
    assert f"; {best} " in lines[0]
    assert "runs of left-out contexts; goal 95" in lines[1]


def test_where_every_context_is_measured_there_is_nothing_more_to_measure(numbers):
    everywhere = numbers["everywhere"]
    for measured, advice in ((1, "Stop"), (0, "No plan")):
        all_known = everywhere | {"measured": [measured] * everywhere["contexts"]}
        found = numbers | {"next": {"missing": "None."}, "everywhere": all_known}
        assert summary_of(found)["next"]["advice"] == advice
