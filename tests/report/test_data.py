"""Records of a report hold what they are given."""

from msbgen.report.data import ReportData, Unavailable


def test_a_part_that_is_missing_says_why_and_the_rest_has_defaults(measured):
    none = Unavailable("nothing was measured.")
    material = ReportData("a.nc", measured, (), none, none, none, none)
    assert material.held_out.why == "nothing was measured."
    assert (material.seed, material.command, material.settings) == (0, "", {})
