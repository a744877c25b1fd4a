"""Records of a report hold what they are given."""

from msbgen.report.data import ReportData, Unavailable


def test_a_part_that_is_missing_says_why_and_the_rest_has_defaults(measured):
    none = Unavailable("nothing was measured.")
    report_inputs = ReportData("a.nc", measured, (), none, none, none, none)
    assert report_inputs.held_out.why == "nothing was measured."
    assert (report_inputs.seed, report_inputs.command, report_inputs.settings) == (0, "", {})
