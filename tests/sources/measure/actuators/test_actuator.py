"""What an actuator can set, in words."""

from hypothesis import given
from hypothesis import strategies as st

from msbgen.sources.measure.actuators.actuator import Capability, listed

STEPS = Capability("regulator", 10.0, 100.0, 10.0, ())


def test_each_level_that_is_not_taken_is_a_sentence_with_the_levels_that_are():
    below, between = STEPS.level_problems("bw", [5, 55], "percent")
    assert below == "bw is 5 percent; this machine's regulator takes 10 to 100."
    assert "is rounded to 60" in between


def test_what_is_lacking_is_said_before_any_level():
    assert Capability("none", 0, 0, 0, ("no cache here.",)).level_problems("c", [1, 2], "1") == [
        "no cache here."
    ]


@given(st.integers(0, 90), st.integers(1, 90))
def test_whole_steps_are_never_refused_for_their_fractions(k, n):
    capability = Capability("x", 0.1, 0.1 + 0.1 * 90, 0.1, ())
    assert capability.level_problems("x", [0.1 + 0.1 * k], "1") == []
    assert len(capability.level_problems("x", [0.1 + 0.1 * k + 0.05], "1")) == 1


def test_a_few_levels_are_listed():
    assert listed(["1", "2.5"]) == "1, 2.5"
    assert listed([*map(str, range(9))]) == "0, 1, 2, 3, 4, 5, …"
