"""The verdict follows its numbers."""

import copy
import re

import pytest

from msbgen.output.report.formatting import Numbers, plain
from msbgen.output.report.verdict import verdict_of


def verdict(numbers, **changes):
    held = copy.deepcopy(numbers["held_out"])
    held |= {k: v for k, v in changes.items() if k in held}
    held["bounds"] |= {k: v for k, v in changes.items() if k.startswith("coverage")}
    _, *sentences = verdict_of(Numbers(numbers | {"held_out": held}))
    return [plain(sentence).replace("\u00a0", " ") for sentence in sentences]


@pytest.mark.parametrize(
    ("error", "lead"),
    [(0.03, "In profile generated profiles are about as good as measuring again "
            "(off by 1.50 times the distance between two halves of the runs), but in duration "
            "off by 1.80 times that, and in spread off by 2.50 times that: "),
     (0.04, "Generated profiles are better than simple methods: "),
     (0.09, "Generated profiles are no better than simple methods: ")],
)  # fmt: skip
def test_errors_are_beside_bracketing_and_the_halves_of_the_runs(numbers, error, lead):
    both = {"baseline": {"error": 0.08, "time": 0.5}, "halves": {"error": 0.02, "time": 0.25}}
    both["best"] = {
        "error": {"method": "multilinear", "value": 0.05},
        "time": {"method": "nearest_context", "value": 0.4},
    }
    both["over_halves"] = {"profile": error / 0.02, "duration": 1.8, "spread": 2.5}
    first = verdict(numbers, error=error, time=0.01, **both)[0]
    assert first.startswith(lead)
    assert f"the mean profile is off by {100 * error:.1f} % of the largest counts" in first
    assert (
        "where bracketing is off by 8.0 %, the best simple method (multilinear) by 5.0 %" in first
    )
    assert " and two halves of the measured runs are 2.0 % apart" in first
    assert first.endswith(
        "its duration is off by 1.0 % (bracketing 50 %, nearest_context 40 %, halves 25 %)."
    )


def test_what_is_as_good_as_measuring_again_is_so_in_all_that_is_named(numbers):
    ratios = {"profile": 0.9, "duration": 1.3, "spread": 1.2}
    best = {"error": {"method": "bracketing", "value": 0.08}, "time": None}
    first = verdict(numbers, over_halves=ratios, best=best)[0]
    assert first.startswith(
        "In profile, duration and spread generated profiles are about as good as measuring again "
        "(off by at most 1.30 times the distance between two halves of the runs): "
    )
    assert "simple method" not in first
    first = verdict(numbers, over_halves={"profile": 0.7}, best=best)[0]
    assert "(off by 70 % of the distance between two halves of the runs): " in first


@pytest.mark.parametrize(
    ("coverage", "high", "lead"),
    [(0.95, 0.97, "hold: "), (0.85, 0.96, "hold within chance: "),
     (0.7, 0.9, "fail too often: ")],
)  # fmt: skip
def test_bounds_are_beside_what_was_asked(numbers, coverage, high, lead):
    second = verdict(numbers, coverage=coverage, coverage_low=0.6, coverage_high=high)[1]
    assert f" held-out runs ended in time (95 % interval 60 % to {100 * high:.0f} %), " in second
    assert f"Bounds on the duration {lead}{100 * coverage:.0f} % of 72" in second
    assert "95 % is the goal" in second


@pytest.mark.parametrize(("guesses", "message"), [(8, False), (9, True)])
def test_most_bounds_are_not_said_to_hold_where_they_are_guesses(numbers, guesses, message):
    assert numbers["everywhere"]["contexts"] == 16
    bounds = numbers["everywhere"]["bounds"] | {"beyond": guesses}
    everywhere = numbers["everywhere"] | {"bounds": bounds}
    second = verdict(numbers | {"everywhere": everywhere})[1]
    assert second.startswith("9 of the 16 bounds shown are guesses, farther out") == message
    assert second.startswith("Bounds on the duration") != message


def test_left_out_contexts_are_said_to_be_bounded_from_fewer(numbers):
    assert "lacks" not in verdict(numbers)[1]
    second = verdict(numbers, left_out=7)[1]
    assert "of 72 left-out runs ended in time" in second
    assert second.endswith(
        " Each left-out context is bounded by a model that lacks 7 of the measured contexts: "
        "fresh runs are usually within the bounds of this page more often."
    )


def test_words_of_levels_stand_in_the_verdict(numbers):
    resources = [dict(r, labels=["gcc", "<b>"]) for r in numbers["measured"]["resources"]]
    regions = [dict(r, low=2.0, high=2.0) for r in numbers["held_out"]["regions"]]
    worded = numbers | {"measured": numbers["measured"] | {"resources": resources}}
    assert re.search(r"at \w+ <b>( GHz)?, where profiles", verdict(worded, regions=regions)[2])


def test_bounds_outside_what_was_measured_are_beside_those_among_it(numbers):
    assert "outside of the measured contexts" not in verdict(numbers)[1]
    bounds = numbers["held_out"]["bounds"]
    bounds = bounds | {"exceeded_outside": 0.125, "over_outside": 1, "runs_outside": 8}
    bounds |= {"exceeded_among": 0.05, "over_among": 2, "runs_among": 40}
    assert verdict(numbers, bounds=bounds)[1].endswith(
        " of the mean run; outside of the measured contexts 12.5 % of the runs took "
        "longer (1 of 8), "
        "inside 5 % (2 of 40)."
    )


def test_that_most_held_out_contexts_were_extrapolated_is_said_first(numbers):
    message = "7 of the 12 held-out contexts were extrapolated. "
    assert verdict(numbers, outside=7)[0].startswith(message)
    assert verdict(numbers, outside=12)[0].startswith("All 12 held-out contexts were ")
    assert "were extrapolated" not in verdict(numbers, outside=6)[0]


def test_one_held_out_context_is_said_in_the_singular(numbers):
    assert "at 1 held-out context the mean" in verdict(numbers, compared=1)[0]


def test_where_bounds_fail_most_the_runs_are_counted(numbers):
    regions = [dict(r, exceeded=0.0, over=0) for r in numbers["held_out"]["regions"]]
    regions[1] |= {"exceeded": 0.125, "over": 1, "runs": 8, "contexts": 3}
    assert "for 12.5 % of the runs (1 of 8); " in verdict(numbers, regions=regions)[2]


def test_contexts_that_means_leave_out_are_said_to_be_in_the_tail(numbers):
    assert "(95 % of the contexts within " in verdict(numbers)[0]
    assert "(95 % of all 12 contexts within " in verdict(numbers, undefined=3)[0]


def test_care_is_taken_where_it_is_worst(numbers):
    third = verdict(numbers)[2]
    worst = max(numbers["held_out"]["regions"], key=lambda r: r["error"])
    assert third.startswith(f"The error is largest at {worst['resource']} {worst['low']:g}")
    assert f"{len(numbers['warnings'])} warnings are below." in third


def test_without_runs_held_out_nothing_is_claimed(numbers):
    none = numbers | {"held_out": {"missing": "Too few."}}
    _, first, second, _ = (plain(s) for s in verdict_of(Numbers(none)))
    assert first == "The error of these profiles is unknown. Too few."
    assert "is unknown" in second
