"""TOML files: what is read, what is refused."""

import pytest

from msbgen.core.errors import ProfileError
from msbgen.core.records import check_keys
from msbgen.data import toml


def test_a_file_is_read_or_refused(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("cores = 2\n[[task]]\nname = 'x'\n")
    found, content = toml.read_toml(path)
    assert (found, content) == (path, {"cores": 2, "task": [{"name": "x"}]})
    assert toml.tables(content, "task", "a.toml") == [{"name": "x"}]
    path.write_text("cores = ")
    with pytest.raises(ProfileError, match=r"a\.toml: cannot be read as TOML"):
        toml.read_toml(path)
    for deep in (".".join("a" * 100_000) + " = 1", "[" + '"a". ' * 100 + "b]"):
        path.write_text(deep)
        with pytest.raises(ProfileError, match="names of a hundred parts"):
            toml.read_toml(path)
    with pytest.raises(ProfileError, match="no such file"):
        toml.read_toml(tmp_path / "b.toml")


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: check_keys({"b": 1}, ("a",), (), "f"), "f: 'b' is no known key; a are"),
        (lambda: check_keys({"runz": 1}, ("runs",), (), "f"), "key; did you mean 'runs'"),
        (lambda: check_keys({}, ("a",), ("a",), "f"), "f: 'a' is missing; it is wanted."),
        (lambda: toml.amount("1", "a", "f"), "f: 'a' is '1'; a number is wanted"),
        (lambda: toml.amount(True, "a", "f"), "f: 'a' is True; a number is wanted"),
        (lambda: toml.name({"a": ""}, "a", "f"), "f: 'a' is ''; a name is wanted"),
        (lambda: toml.tables({"a": 1}, "a", "f"), r"f: 'a' is no array of tables; '\[\[a\]\]'"),
        (lambda: toml.tables({"a": [1]}, "a", "f"), "f: 'a' is no array of tables"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(ask, sentence):
    with pytest.raises(ProfileError, match=sentence):
        ask()


def test_numbers_and_names_are_returned():
    assert toml.amount(2, "a", "f") == 2.0
    assert toml.name({"a": "x"}, "a", "f") == "x"
