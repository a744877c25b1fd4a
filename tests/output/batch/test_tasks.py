"""Tasks as files name them, and every way of naming them wrongly."""

import pytest

from msbgen.core.errors import ProfileError
from msbgen.output.batch.tasks import BatchTask, TaskSettings, read_tasks


@pytest.fixture
def folder(tmp_path):
    for name in ("b.nc", "a.nc", "a-truth.nc", "lone-truth.nc", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def written(folder, text):
    path = folder / "tasks.toml"
    path.write_text(text)
    return path


def test_a_folder_is_a_task_a_file_with_its_truth(folder):
    tasks = read_tasks(folder)
    assert [(t.name, t.measured.name, t.truth and t.truth.name) for t in tasks] == [
        ("a", "a.nc", "a-truth.nc"),
        ("b", "b.nc", None),
        ("lone-truth", "lone-truth.nc", None),
    ]
    assert all(t.settings == TaskSettings() for t in tasks)


def test_what_a_task_says_stands_over_the_defaults(folder):
    (folder / "wanted.csv").write_text("ways\n2\n")
    tasks = read_tasks(
        written(
            folder,
            """
            defaults = {seed = 3, kinds = ["mean"], miscoverage = 0.1, budget = 7}
            [[task]]
            measured = "a.nc"
            truth = "a-truth.nc"
            [[task]]
            name = "second"
            measured = "a.nc"
            seed = 4
            interval = "10ms"
            contexts = "wanted.csv"
            """,
        )
    )
    assert [t.name for t in tasks] == ["a", "second"]
    assert [t.settings.seed for t in tasks] == [3, 4]
    assert all(t.settings.kinds == ("mean",) and t.settings.budget == "7" for t in tasks)
    assert tasks[1].settings.times == 0.01
    assert [p.name for p in tasks[0].inputs] == ["a.nc", "a-truth.nc"]
    assert [p.name for p in tasks[1].inputs] == ["a.nc", "wanted.csv"]
    assert len({t.digest for t in tasks}) == 2


def test_a_digest_is_of_settings_alone(tmp_path):
    one, other = BatchTask("a", tmp_path / "a"), BatchTask("b", tmp_path / "b")
    assert one.digest == other.digest
    assert one.digest != BatchTask("a", tmp_path / "a", settings=TaskSettings(seed=1)).digest
    assert one.digest != BatchTask("a", tmp_path / "a", tmp_path / "truth").digest


ONE = '[[task]]\nmeasured = "a.nc"\n'
WRONG = {
    "": "'task' is missing; it is wanted.",
    "[[task]]\nmeasured = 3\n": "'measured' is 3; a file's name in quotes is wanted",
    ONE + "truth = ''\n": "'truth' is ''; a file's name in quotes is wanted",
    ONE + "name = 3\n": "'name' is 3; a name in quotes is wanted",
    "task = []\n": "holds no task",
    "task = 3\n": "no array of tables",
    "[[task]]\n": "'measured' is missing",
    ONE + "sed = 3\n": "did you mean 'seed'",
    ONE + "seed = -1\n": "'seed' is -1; a whole number ≥ 0",
    ONE + f"seed = {10**19}\n": "a whole number from 0 to 2^63 - 1 is wanted",
    ONE + 'methods = ["x"]\n': "'methods' holds 'x'; default/",
    ONE + "budget = 1e308\n": "'budget' is 1e+308; a time, such as '60s', or a whole number",
    ONE + "leave_out = 0\n": "'leave_out' is 0; a whole number ≥ 1",
    ONE + "leave_out = 2.5\n": "'leave_out' is 2.5; a whole number is wanted",
    ONE + "seed = true\n": "'seed' is True; a whole number",
    ONE + "samples = 0\n": "'samples' is 0",
    ONE + 'steps = "bound"\n': "'steps' is 'bound'; a list of names",
    ONE + "kinds = 3\n": "'kinds' is 3; a list of names",
    ONE + 'kinds = ["best"]\n': "'kinds' holds 'best'; max_likelihood, mean, sample",
    ONE + 'kinds = ["mean", "mean"]\n': "names a kind twice",
    ONE + "kinds = []\nsteps = []\n": "are both empty",
    ONE + 'preset = "own"\n': "'preset' holds 'own'; default, paper",
    ONE + "miscoverage = 1.5\n": "'miscoverage' is 1.5",
    ONE + 'miscoverage = "x"\n': "'miscoverage' is 'x'; a number",
    ONE + 'interval = "soon"\n': "'interval' time is 'soon'",
    ONE + 'interval = "0s"\n': "'interval' is not a time above 0",
    ONE + 'budget = "lots"\n': "tasks.toml, task 1: budget is 'lots'; a time such as",
    ONE + "budget = -3\n": "budget is '-3'; a time such as",
    ONE + 'contexts = "grid:3xx3"\n': "tasks.toml, task 1: grid is '3xx3'; a number of levels",
    ONE + 'contexts = "none.csv"\n': "none.csv: no such file",
    ONE + 'name = "a/b"\n': "'a/b' cannot name a folder",
    ONE + 'name = ".work"\n': "'.work' cannot name a folder",
    ONE + 'name = "index.html"\n': "cannot name a folder",
    ONE + 'name = "a\\u202eb"\n': "cannot name a folder",
    ONE + f'name = "{"x" * 10_000}"\n': "has 10000 characters; one of at most 200 bytes",
    ONE + ONE: "task 'a' occurs twice",
    "defaults = 3\n" + ONE: "'defaults' is 3; a table",
    "defaults = {name = 'x'}\n" + ONE: "'name' is no known key",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[-30:].strip())
def test_what_is_wrong_is_said_in_a_sentence(folder, text):
    with pytest.raises(ProfileError) as caught:
        read_tasks(written(folder, text))
    message = str(caught.value)
    assert WRONG[text] in message
    assert len(message) < 400


def test_names_of_many_letters_are_fine(folder):
    for name in ("<script>", 'a"b', "مهمة", "x" * 200):
        task = written(folder, ONE + f"name = '{name}'\n")
        assert [t.name for t in read_tasks(task)] == [name]


def test_every_step_may_be_asked_for_in_a_word(folder):
    (task,) = read_tasks(written(folder, ONE + 'steps = "all"\n'))
    assert task.digest == BatchTask("a", folder / "a.nc").digest


def test_only_steps_that_there_are_may_be_asked_for(folder):
    path = written(folder, ONE + 'steps = ["plan", "bond"]\n')
    with pytest.raises(ProfileError, match="task 1: 'steps' holds 'bond'; bound, plan, all are kn"):
        read_tasks(path, steps=["bound", "plan"])
    assert read_tasks(path)[0].settings.steps == ("plan", "bond")


def test_a_profile_file_is_no_file_of_tasks(folder):
    with pytest.raises(
        ProfileError, match=r"a.nc: is a profile file; name a TOML file of tasks or a"
    ):
        read_tasks(folder / "a.nc")


def test_an_empty_folder_holds_no_task(tmp_path):
    with pytest.raises(ProfileError, match="holds no task"):
        read_tasks(tmp_path)
