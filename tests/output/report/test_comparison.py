"""Comparisons in words, as Markdown, and as a page."""

import html
import json
import re

import numpy as np
import pytest

import browsing
from components import needs
from msbgen.output.report import comparison
from msbgen.output.report.comparison_page import write_page

CONTEXTS = [[w, f] for w in (2.0, 4.0, 6.0, 8.0) for f in (1.0, 1.7)]


def ratio(value, half=0.001, p_value=1e-9):
    return {"ratio": value, "low": value - half, "high": value + half, "p_value": p_value}


def values(slow=range(8), **others):
    """Results with the contexts `slow` slower by 2 %."""
    change = np.where(np.isin(np.arange(8), list(slow)), 1.02, 1.0)
    n, edges = 20, np.linspace(0, 1, 21).tolist()
    return {
        "task": "gzip", "old": "old.nc", "new": "new.nc", "verdict": "slower",
        "confidence": 0.95, "tolerance": 0.01, "time": ratio(1.005, 0.002), "detectable": 0.004,
        "more_runs": 0, "totals": {}, "runs": [24, 24], "noise": "runs", "same_program": True,
        "stretched_runs": [0, 0], "stretched_p": 1.0,
        "resources": [
            {"name": "cache_ways", "units": "1", "labels": []},
            {"name": "frequency", "units": "GHz", "labels": []},
        ],
        "contexts": CONTEXTS, "ratio": change.tolist(), "low": (change - 0.005).tolist(),
        "high": (change + 0.005).tolist(), "changes": [], "notes": [],
        "course": {
            "quantities": ["time", "cache_misses"], "old_edges": edges, "new_edges": edges,
            "old": np.ones((n, 2)).tolist(), "new": (np.ones((n, 2)) * 1.1).tolist(),
        },
        **others,
    }  # fmt: skip


def change(ratios, quantity="time", **others):
    return {
        "quantity": quantity, "old": [0.4, 0.5], "new": [0.4, 0.5], "ratios": ratios,
        "resource": -1, "level": float("nan"), "below": False, "p_value": 0.001,
        "begins": [0.4, 0.4], **others,
    }  # fmt: skip


VERDICTS = [
    ({}, "slower by 0.50 % (95 % interval 0.30 % to 0.70 %)"),
    (
        {"verdict": "faster", "time": ratio(0.9, 0.02)},
        "faster by 10 % (95 % interval 8 % to 12 %)",
    ),
    (
        {"verdict": "same", "time": ratio(1.001, 0.002)},
        "the same within 1 % (95 % interval −0.10 % to +0.30 %)",
    ),
    (
        {"verdict": "undecided", "time": ratio(1.01, 0.02)},
        "undecided: +1 % (95 % interval −1 % to +3 %)",
    ),
]


@pytest.mark.parametrize(("given", "text"), VERDICTS)
def test_verdicts_in_words(given, text):
    assert comparison.verdict_of(values(**given)) == text


WHERE = [
    (range(8), "slower in every context"),
    ([], "no single context differs for certain"),
    (range(4), "slower only below 6 cache ways"),
    (range(1, 8, 2), "slower only at frequency 1.7 GHz"),
    ([2, 3], "slower only at 4 cache ways"),
    ([0, 3, 5], "slower in 3 of 8 contexts"),
]


@pytest.mark.parametrize(("slow", "text"), WHERE)
def test_contexts_are_told_by_the_simplest_rule(slow, text):
    assert comparison.where_of(values(slow)) == text


def test_a_rule_with_few_exceptions_holds_mostly():
    grid = [[float(w)] for w in range(40)]
    low = [1.01 if w < 20 and w != 7 else 0.99 for w in range(40)]
    one = {"name": "cache_ways", "units": "1", "labels": []}
    found = values(contexts=grid, low=low, high=[1.1] * 40, resources=[one])
    assert comparison.where_of(found) == "slower mostly below 20 cache ways"


@pytest.mark.parametrize(
    ("name", "units", "labels", "text"),
    [
        ("cache_ways", "1", [], "below 6 cache ways"),
        ("batch_size", "1", [], "below batch size 6"),
        ("lib_versions", "1", list("abcdefg"), "below lib versions f"),
        ("share", "%", [], "below share 6 %"),
    ],
)
def test_levels_are_named_as_one_says_them(name, units, labels, text):
    one = {"name": name, "units": units, "labels": labels}
    found = values(
        contexts=[[w] for w, _ in CONTEXTS], resources=[one],
        changes=[change({}, resource=0, level=6.0, below=True)],
    )  # fmt: skip
    assert comparison.changes_of(found)[0][-1] == text


def test_changes_are_listed_in_the_order_of_the_work():
    """A comparison finds the clearest one first."""
    late, early = (change({"time": ratio(1.05)}, old=[a, a + 0.1]) for a in (0.7, 0.2))
    rows = comparison.changes_of(values(changes=[late, early]))
    assert [row[0] for row in rows] == ["20.0 to 30.0 %", "70.0 to 80.0 %"]


CHANGES = [
    (
        change({"time": ratio(1.047), "misses": ratio(1.001, p_value=0.4)}),
        "same counts, 4.7 % slower",
    ),
    (
        change({"time": ratio(1.03), "misses": ratio(1.2)}, "misses"),
        "misses +20 %, time +3 %",
    ),
    (
        change({"time": ratio(1.001, p_value=0.3), "misses": ratio(0.8)}, "misses"),
        "misses −20 %, same time",
    ),
    (change({}, "inserted", old=[0.4, 0.4], new=[0.4, 0.42]), "inserted work, 2 % of the new work"),
    (change({}, "removed", new=[0.4, 0.4]), "removed work, 10 % of the old work"),
]  # fmt: skip


def test_work_that_fits_in_many_places_has_a_range():
    spans = {"old": [0.5, 0.52], "new": [0.5, 0.5]}
    begins = [0.49, 0.51], [0.2, 0.7], [-1e-12, 0.98 + 1e-12]
    found = [change({}, "removed", **spans, begins=one) for one in begins]
    rows = comparison.changes_of(values(changes=found))
    assert [row[:2] for row in rows] == [
        ["50.0 to 52.0 %", "at 50.0 %"],
        ["between 20 and 72 %", "unclear"],
        ["between 0 and 100 %", "unclear"],
    ]


def test_counters_that_differ_are_listed():
    totals = {"misses": ratio(1.02), "requests": ratio(1.02, 0.03, 0.2), "faults": ratio(1.0001)}
    assert comparison.totals_of(values(totals=totals)) == "misses +2 % (+1.9 % to +2.1 %)"
    text = comparison.text_of([values(totals={"misses": ratio(1.0)})])
    assert "Counters: no total differs for certain." in text


@pytest.mark.parametrize(("given", "text"), CHANGES)
def test_what_changed_in_a_stretch(given, text):
    assert comparison.change_of(given, 0.95) == text


def test_the_text_has_the_changes_their_contexts_and_the_notes():
    group = {"resource": 0, "level": 6.0, "below": True}
    found = values(
        changes=[change({"time": ratio(1.047)}, **group)], notes=["one note."], more_runs=7,
        same_program=False, noise="neighbours", stretched_p=0.01, stretched_runs=[0, 6],
    )  # fmt: skip
    text = comparison.text_of([found])
    assert "have found a change of 0.40 % nine times in ten." in text
    assert "7 more runs of each version in every context would decide, if the change is +" in text
    assert re.search(r"40\.0 to 50\.0 % .*same counts, 4\.7 % slower  below 6 cache ways\n", text)
    for note in ("one note.", "different programs", "has one run", "0 of 24 old and 6 of 24 new"):
        assert re.search(rf"^Note: .*{note}", text, re.MULTILINE), note
    assert comparison.text_of([found, found]).startswith("task  time     verdict\n---")


def test_markdown_is_short_and_escapes_names():
    found = values(task="a|b <img> @all `x`", changes=[change({"time": ratio(1.047)})])
    text = comparison.markdown_of([found] * 60)
    assert "40 more tasks are not listed." in text
    assert len(text) < 65_536  # the longest comment of usual services
    assert "<img" not in text


@pytest.mark.parametrize(
    "task",
    [
        "my_task",
        "a|b <img> @all `x` *y* \\z",
        "see http://a.b/c?d=1",
        "www.a.b",
        "me@a.b",
        "#12 ~x~",
        "GH-12 !3 %v1.0",
    ],
)
def test_names_in_markdown_and_in_its_html_are_text_and_no_links(task):
    text = comparison.markdown_of([values(task=task)])
    (title,) = re.findall("<summary>(.*)</summary>", text)
    (row,) = re.findall(r"^\| (\S.*?) \| [+−]", text, re.MULTILINE)
    assert title == row  # HTML, and Markdown with the same meaning
    assert html.unescape(title.replace("<!-- -->", "")) == task
    bare = html.unescape(title)  # as services see it when they look for links and mentions
    assert not re.search(r"[@#!%]\w|://|www[.]|GH-\d", bare)
    assert not re.search(r"[\\`*_\[\]|~@]|<(?!!-- -->)", title)


def test_a_note_makes_no_lines():
    found = [values(notes=["at cpu=50 %\nverdict: same"])]
    for text in (comparison.text_of(found), comparison.markdown_of(found)):
        assert r"cpu=50 %\nverdict: same" in html.unescape(text)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    resources = [
        {"name": "<b>ways" + "x" * 60, "units": "<i>", "labels": ["<s>", "two"]},
        {"name": "frequency", "units": "GHz", "labels": []},
    ]
    found = values(
        task="</title><script>alert(1)</script>", resources=resources,
        contexts=[[1.0 + (w > 4), f] for w, f in CONTEXTS],
        changes=[change({"time": ratio(1.047)}), change({}, "inserted", old=[0.7, 0.7])],
        notes=["<script>alert(2)</script>"],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(path, found)
    return path


def test_a_page_is_one_small_file_without_scripts_and_its_bytes_repeat(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert len(text) < 3_000_000
    with pytest.raises(FileExistsError):
        write_page(page, values())
    for name in ("a", "b"):
        write_page(tmp_path / f"{name}.html", json.loads(json.dumps(values(course=None))))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert "By progress" not in (tmp_path / "a.html").read_text(encoding="utf-8")


@needs("chromium", browsing.lacking())
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_finds_no_fault(page, chromium, width):
    with browsing.opened(chromium, page, width=width) as (opened, complaints):
        browsing.open_all(opened)
        for scheme, media in browsing.LOOKS:
            opened.emulate_media(media=media, color_scheme=scheme)
            # colours depend on no width
            assert browsing.violations(opened, colours=width == 390) == []
            if media == "screen":
                assert browsing.faults(opened) == []
                opened.goto(page.as_uri())
                browsing.open_all(opened)
                # keys before the first frame may be lost
                opened.evaluate("new Promise(requestAnimationFrame)")
                opened.keyboard.press("Tab")
                assert opened.evaluate("document.activeElement.hash") == "#verdict"
                opened.keyboard.press("Enter")
                opened.wait_for_url("**/*#verdict")  # the browser follows a link later
        assert complaints == []
