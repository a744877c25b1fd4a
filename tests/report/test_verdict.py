"""The verdict follows its numbers."""

import copy

import pytest

from msbgen.report.numbers import numbers_of
from msbgen.report.verdict import verdict_of
from msbgen.report.words import Numbers, plain


@pytest.fixture(scope="module")
def numbers(material):
    return numbers_of(material)


def verdict(numbers, **changes):
    held = copy.deepcopy(numbers["held_out"])
    held |= {k: v for k, v in changes.items() if k in held}
    if "coverage" in changes:
        held["bounds"]["coverage"] = changes["coverage"]
    return [
        plain(s).replace("\u00a0", " ") for s in verdict_of(Numbers(numbers | {"held_out": held}))
    ]


@pytest.mark.parametrize(
    ("error", "lead"),
    [(0.03, "Generated profiles are about as good as measuring again: "),
     (0.04, "Generated profiles are better than interpolated ones: "),
     (0.09, "Generated profiles are no better than interpolated ones: ")],
)  # fmt: skip
def test_errors_are_beside_bracketing_and_the_halves_of_the_runs(numbers, error, lead):
    both = {"baseline": {"error": 0.08, "time": 0.5}, "halves": {"error": 0.02, "time": 0.25}}
    first = verdict(numbers, error=error, time=0.01, **both)[0]
    assert first.startswith(lead)
    assert f"the mean profile is off by {100 * error:.1f} % of the largest counts" in first
    assert "where bracketing is off by 8.0 % and two halves of the measured runs are 2.0 %" in first
    assert first.endswith("its duration is off by 1.0 % (bracketing 50 %, halves 25 %).")


@pytest.mark.parametrize(
    ("coverage", "lead"),
    [(0.95, "hold: "), (0.85, "hold within what chance explains: "), (0.7, "fail too often: ")],
)
def test_bounds_are_beside_what_was_asked(numbers, coverage, lead):
    second = verdict(numbers, coverage=coverage)[1]
    assert f"Bounds on the duration {lead}{100 * coverage:.0f} % of 72" in second
    assert "95 % were asked for" in second


def test_care_is_taken_where_it_is_worst(numbers):
    third = verdict(numbers)[2]
    worst = max(numbers["held_out"]["regions"], key=lambda r: r["error"])
    assert third.startswith(f"Trust it least at {worst['resource']} {worst['low']:g}")
    assert f"{len(numbers['warnings'])} warnings stand below." in third


def test_without_runs_held_out_nothing_is_claimed(numbers):
    none = numbers | {"held_out": {"missing": "Too few."}}
    first, second, _ = (plain(s) for s in verdict_of(Numbers(none)))
    assert first == "Nothing says how wrong these profiles are. Too few."
    assert "not known" in second
