"""``msbgen evaluate``."""

import json

import pytest

from msbgen.data.store import write_profiles


def test_evaluate_against_a_truth_and_by_leaving_out(folder, msbgen):
    done = msbgen(
        "evaluate", "measured.nc", "--truth", "truth.nc", "-o", "scores",
        "--methods", "bracketing,paper/mean", "--fastdtw",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "paper/mean" in done.stdout
    scores = json.loads((folder / "scores" / "scores.json").read_text())
    assert scores["n_contexts"] == 2
    assert scores["methods"]["paper/mean"]["fastdtw"] > 0
    done = msbgen("evaluate", "measured.nc", "--leave-out", 2, "--methods", "nearest_context")
    assert done.returncode == 0, done.stderr
    assert "means over 6 contexts" in done.stdout


def test_a_generated_file_is_scored_beside_the_methods(folder, msbgen, refused):
    done = msbgen(
        "generate", "measured.nc", "-o", "g.nc", "--contexts", "truth.nc", "--kind", "mean"
    )
    assert done.returncode == 0, done.stderr
    arguments = ["--truth", "truth.nc", "--methods", "bracketing,default/mean"]
    done = msbgen("evaluate", "measured.nc", *arguments, "--generated", "g.nc", "-o", "s")
    assert done.returncode == 0, done.stderr
    scores = json.loads((folder / "s" / "scores.json").read_text())["methods"]
    assert scores["g.nc"]["ndtw"] == pytest.approx(scores["default/mean"]["ndtw"])
    sentence = "measured.nc: lacks 2 contexts of the truth"
    refused(3, sentence, "evaluate", "measured.nc", *arguments, "--generated", "measured.nc")


USAGE = [
    ([], "--truth"),
    (["--truth", "truth.nc", "--methods", "best"], "no method 'best'; choose from default/"),
    (["--leave-out", "2", "--methods", ""], "no method ''"),
    (
        ["--leave-out", "2", "--methods", "bracketing,bracketing"],
        "--methods names 'bracketing' twice",
    ),
    (["--leave-out", "6"], "leaves none of the 6 contexts"),
    (["--leave-out", "6", "-o", "new/s"], "leaves none"),
    (["--leave-out", "2", "--generated", "truth.nc"], "--generated needs --truth"),
    (
        ["--truth", "truth.nc", "--generated", "a/x.nc", "--generated", "b/x.nc"],
        "--generated names 'a/x.nc' and 'b/x.nc'",
    ),
    (["--leave-out", "2", "-o", "measured.nc"], "measured.nc: is no folder"),
    (["--leave-out", "2", "-o", "-"], "'-' (stdout) is for tables only"),
    (["--leave-out", "2", "-o", "full"], "full/scores.json: exists already"),
]


@pytest.mark.parametrize(("given", "sentence"), USAGE, ids=lambda v: str(v)[-20:])
def test_usage_errors(folder, refused, given, sentence):
    (folder / "full").mkdir()
    (folder / "full" / "scores.json").touch()
    refused(2, sentence, "evaluate", "measured.nc", *given)
    assert not (folder / "new").exists()


def test_a_folder_whose_name_begins_with_a_dot_is_another_one(folder, refused):
    (folder / ".hidden").mkdir()
    done = refused(2, "leave", "evaluate", "measured.nc", "--leave-out", 6, "-o", "hidden")
    assert "hidden" not in done.stderr


def test_contexts_of_the_truth_that_cannot_be_answered_are_bad_data_of_its_file(
    truth, folder, refused
):
    nothing = truth.assign_coords(
        cache_ways=("context", [0.0, 4.0], {**truth["cache_ways"].attrs, "levels": [0.0, 4.0]})
    )
    write_profiles(nothing, folder / "none.nc")
    sentence = "none.nc: resource 'cache_ways' is 0 in context 0; a positive number"
    refused(
        3, sentence, "evaluate", "measured.nc", "--truth", "none.nc", "--methods", "default/mean"
    )
