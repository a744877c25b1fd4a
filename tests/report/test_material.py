"""Records of a report hold what they are given."""

from msbgen.report.material import Material, Missing


def test_a_part_that_is_missing_says_why_and_the_rest_has_defaults(measured):
    none = Missing("nothing was measured.")
    material = Material("a.nc", measured, (), none, none, none, none)
    assert material.held_out.why == "nothing was measured."
    assert (material.seed, material.command, material.settings) == (0, "", {})
