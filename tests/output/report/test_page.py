"""The page: its numbers, its bytes, hostile names, and what a browser makes of it."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import browsing
import partials
from batches import GRID, small_task
from components import needs
from msbgen.core.errors import ArgumentError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.output.batch.report_data import collect_report_data
from msbgen.output.report import figures, formatting, summary
from msbgen.output.report import page as page_module
from msbgen.output.report.data import AllContexts, Bounds, ReportData, Unavailable
from msbgen.output.report.numbers import loose_region
from msbgen.output.report.page import write_report

TEMPLATES = [
    Path(page_module.__file__).with_name(n) for n in ("page.html", "verdict.py", "summary.py")
]
NUMBER = re.compile(r"\d(?:[\d.,e+-]*\d)?")
INJECTED = (
    "{{7*7}}\"onmouseover='alert(2)' </style></svg><img src=https://x.invalid onerror=alert(3)>"
)
HOSTILE = f"{INJECTED}<script>alert('x')</script>\"&quot; \u202eאבג " + "long" * 2_500
needs_browser = needs("chromium", browsing.lacking())


@pytest.fixture(scope="module")
def written(report_inputs, tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report") / "report.html", report_inputs)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A report of a saved model with three resources, the last of which has words for levels."""
    axes = [1.0, 2.0, 4.0], [1.0, 2.0], [1.0, 2.0, 3.0]
    table = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    duration = 0.3 / table[:, 0] + 0.1 / table[:, 1] + 0.001 * table[:, 2]
    labels = ["gcc", "<b onclick=alert(1)>&\u202e", "<svg onload=alert(2)>"]
    profiles = make_profiles(
        np.ones((len(table), 5, 1)), duration, table, interval=0.1,
        resources={"ways": {"units": "1"}, "clock": {"units": "GHz"},
                   "compiler": {"units": "1", "labels": labels, "levels": axes[2]}},
        counters={"instructions": {}}, attrs={"task": "saved"},
    )  # fmt: skip
    none, bounds = Unavailable("None."), Bounds(0.05, 1.1 * duration, np.zeros(len(table), bool))
    known = table[:, 2] == 2.0
    runs = profiles.isel(context=known).drop_vars(["instructions", "duration"])
    both = duration[known, None] * [1.0, 1.02]
    measured = runs.assign(duration=(("context", "run"), both, {"units": "s"}))
    nowhere = np.zeros(len(table), dtype=bool)
    everywhere = AllContexts(Profiles.of(profiles), nowhere, nowhere, bounds, none)
    inputs = ReportData("model.nc", Profiles.of(measured), (), none, everywhere, none, none)
    return write_report(tmp_path_factory.mktemp("fitted") / "report.html", inputs)


@pytest.fixture(scope="module")
def hostile(coarse, tmp_path_factory):
    """A report of names that want to be markup, a constant counter, missing runs, one resource."""
    plain = small_task(GRID[::5], 3)
    counts = np.stack([plain[c].values for c in ("instructions", "cache_misses")], axis=-1)
    counts[..., 1] = np.where(np.isfinite(counts[..., 1]), 7.0, np.nan)
    duration = plain["duration"].values.copy()
    counts[0, 1], duration[0, 1] = np.nan, np.nan
    script = "<script>alert(1)<-script> \"'" + "c" * 200
    task = make_profiles(
        counts, duration, GRID[::5, :1], interval=0.01,
        resources={"<b>ways אבג": {"units": "<i>javascript:alert(4)"}},
        counters={script: {}, "constant": {"long_name": HOSTILE}},
        attrs={"task": HOSTILE, "platform": HOSTILE, "progress": script},
    )  # fmt: skip
    report_inputs = collect_report_data(task, source="</script><script>.nc", command=HOSTILE)
    return write_report(tmp_path_factory.mktemp("hostile") / "report.html", report_inputs)


class Reader(HTMLParser):
    """Figures of a page, its other words, its tables of numbers, and what it is made of."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.words, self.tables, self.tags, self._open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        if "aria-label" in attrs:
            self.words.append(attrs["aria-label"])
        if tag not in ("meta", "link", "br", "wbr", "input"):
            self._open.append((tag, attrs))
        if self._is_in("numbers"):
            if tag == "table":
                self.tables.append({"caption": "", "rows": []})
            elif tag == "tr":
                self.tables[-1]["rows"].append([])
            elif tag in ("th", "td"):
                self.tables[-1]["rows"][-1].append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def _is_in(self, name):
        return any(name == tag or name == attrs.get("class") for tag, attrs in self._open)

    def handle_data(self, data):
        if self._is_in("script") or self._is_in("style") or self._is_in("svg"):
            return
        if self._is_in("data"):
            self.figures.append((self._open[-1][1], data))
        elif self._is_in("numbers") and self._is_in("caption"):
            self.tables[-1]["caption"] += data
        elif self._is_in("numbers") and (self._is_in("th") or self._is_in("td")):
            self.tables[-1]["rows"][-1][-1] += data
        else:
            self.words.append(data)


def values(tree):
    """All numbers and texts of a JSON tree."""
    if isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from values(part)
        if isinstance(tree, dict):
            yield from tree
    else:
        yield tree


def test_groups_cuts_and_what_follows_are_told(task, report_inputs, unpainted, tmp_path):
    grouped = partials.in_groups(task.copy(deep=True))
    measured = Profiles.of(partials.cut(grouped, [(3, r) for r in range(4)]))
    following = replace(report_inputs.next, groups=(("instructions", "x"), ("instructions", "y")))
    partial = replace(report_inputs, measured=measured, next=following)
    page, _ = write_report(tmp_path / "report.html", partial)
    text = "".join(Reader(page.read_text(encoding="utf-8")).words)
    for reported in (
        "2, with instructions in every run", "4 of 100 runs were ended early",
        "is not measured: they depend here", "runs that were not cut", "of which a run was not cut",
        "groups of counters in turn: instructions, x; instructions, y.",
    ):  # fmt: skip
        assert reported in text


def test_every_figure_of_the_page_is_that_of_the_json(written):
    page, numbers = written
    number = formatting.Numbers(json.loads(numbers.read_text(encoding="utf-8")))
    figures = Reader(page.read_text(encoding="utf-8")).figures
    assert len(figures) > 100
    for attrs, text in figures:
        reported = number(attrs["data-at"])
        assert float(attrs["value"]) == reported.value or np.isnan(reported.value)
        assert text in {form(reported.value) for form in formatting.FORMS.values()} | {"–"}


def test_no_other_number_stands_on_the_page(written):
    """Beside figures and tables there are the template's words, the JSON's texts, its levels."""
    page, numbers = written
    reported = json.loads(numbers.read_text(encoding="utf-8"))
    levels = [level for context in reported["everywhere"]["context"] for level in context]
    known = [v for v in values(reported) if isinstance(v, str)]
    known += [path.read_text(encoding="utf-8") for path in TEMPLATES]
    known += [formatting.as_level(level) for level in levels]
    known += map(str, reported["settings"].values())
    forms = (formatting.as_count, formatting.as_seconds, formatting.as_fine_share)
    numbers = [v for v in values(reported) if isinstance(v, (int, float)) and np.isfinite(v)]
    known += [form(number) for number in numbers for form in forms]
    tokens = {token for text in known for token in NUMBER.findall(text)}
    said = Reader(page.read_text(encoding="utf-8")).words
    found = [token for text in said for token in NUMBER.findall(text)]
    assert len(found) > 50
    assert set(found) <= tokens


def test_tables_hold_the_durations_of_their_contexts(written):
    page, numbers = written
    reported = json.loads(numbers.read_text(encoding="utf-8"))["everywhere"]
    (table,) = Reader(page.read_text(encoding="utf-8")).tables
    across, up = re.fullmatch("columns: (.*), rows: (.*)", table["caption"].strip()).groups()
    duration = dict(zip(map(tuple, reported["context"]), reported["duration"]))
    head, *rows = table["rows"]
    met = 0
    for level, *cells in rows:
        for other, cell in zip(head[1:], cells, strict=True):
            context = {across: float(other), up: float(level)}
            key = tuple(context[name] for name in reported["resources"])
            assert cell == formatting.as_number(duration[key])
            met += 1
    assert met == reported["contexts"] == 16


def test_what_the_script_shows_is_in_the_json(written):
    page, numbers = written
    reported = json.loads(numbers.read_text(encoding="utf-8"))["everywhere"]
    shown = json.loads(re.search('id="contexts">(.*?)</script>', page.read_text("utf-8"))[1])
    for name in ("duration", "bound"):
        assert shown[name] == reported[name]
    for name in ("extrapolated", "beyond", "measured"):
        assert [int(mark) for mark in shown[name]] == reported[name]
    assert shown["miscoverage"] == reported["bounds"]["miscoverage"]
    assert shown["runs"] == reported["random_runs"]
    levels = np.array(reported["context"]).T
    assert shown["levels"] == [np.unique(column).tolist() for column in levels]


def test_the_verdict_of_the_page_is_that_of_the_json(written):
    page, numbers = written
    text = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
    for sentence in json.loads(numbers.read_text(encoding="utf-8"))["verdict"]:
        assert sentence in text


@pytest.fixture
def unpainted(monkeypatch):
    """Pages without panels, for tests that look at none of them: they take most of the time."""
    monkeypatch.setattr(figures, "_panel", lambda name, draw: "<svg></svg>")


def test_the_page_links_its_numbers(report_inputs, unpainted, tmp_path):
    page, numbers = write_report(tmp_path / "a b.html", report_inputs)
    link = '<a href="a%20b.json"><bdi>a b.json</bdi></a>'
    assert numbers.name == "a b.json"
    assert link in page.read_text(encoding="utf-8")


def test_a_simulated_platform_is_named_at_the_head(written, report_inputs, unpainted, tmp_path):
    assert "simulated" not in _head(written[0])
    measured = report_inputs.measured
    simulated = replace(measured, attrs={"platform": "Simulated 20-way cache"})
    page, _ = write_report(tmp_path / "b.html", replace(report_inputs, measured=simulated))
    assert "contexts of a <b>simulated</b> platform." in _head(page)


@pytest.mark.parametrize(("before", "said"), [(100.0, True), (10.0, True), (1.0, False)])
def test_an_expected_error_far_from_the_observed_one_is_told(
    report_inputs, unpainted, tmp_path, before, said
):
    observed = report_inputs.held_out.summary["methods"]["default/mean"]["ndtw_scaled"]
    apart = replace(
        report_inputs.next, error=report_inputs.next.error / report_inputs.next.error[0]
    )
    apart = replace(apart, error=apart.error * observed / before)
    page, _ = write_report(tmp_path / "b.html", replace(report_inputs, next=apart))
    assert ("times the expected one before" in page.read_text(encoding="utf-8")) == said


def test_where_nothing_pays_the_page_says_stop(report_inputs, unpainted, tmp_path):
    plan = report_inputs.next
    none = replace(
        plan, contexts=plan.contexts[:0], runs=plan.runs[:0], seconds=plan.seconds[:0],
        error=plan.error[:1], pays=0, advice="stop: it is enough",
    )  # fmt: skip
    some = replace(plan, pays=1, advice="stop after the first context: it is enough")
    for stopped, rows in ((none, 0), (some, 1)):
        page, numbers = write_report(
            tmp_path / f"{rows}.html", replace(report_inputs, next=stopped)
        )
        text = page.read_text(encoding="utf-8")
        assert text.count('data-at="next.runs.') == rows
        assert ("<b>Stop measuring.</b>" in text) == (rows == 0)
        assert f"<p>{stopped.advice.capitalize()}.</p>" in text
        advice = json.loads(numbers.read_text(encoding="utf-8"))["summary"]["next"]["advice"]
        assert advice == ("Measure more" if rows else "Stop")


def test_one_run_each_is_said(task, report_inputs, unpainted, tmp_path):
    alone = replace(report_inputs, measured=Profiles.of(task.isel(run=[0])))
    page, _ = write_report(tmp_path / "b.html", alone)
    assert "<dd>not known: one run each</dd>" in page.read_text(encoding="utf-8")


def test_a_drawn_context_is_said_to_be_extrapolated(report_inputs, unpainted, tmp_path):
    outside = np.arange(12) == report_inputs.held_out.shown[-1].row
    held = replace(report_inputs.held_out, extrapolated=outside)
    page, _ = write_report(tmp_path / "a.html", replace(report_inputs, held_out=held))
    places = page.read_text(encoding="utf-8").split("<h3>")
    said = [p.split(":")[0] for p in places if "Extrapolated: outside what the model had" in p]
    assert said == [report_inputs.held_out.shown[-1].place.capitalize()]


def _head(page):
    return page.read_text(encoding="utf-8").split("<nav")[0]


def test_names_of_files_are_text(hostile):
    page = hostile[0].read_text(encoding="utf-8")
    tags = Reader(page).tags
    assert tags.count("script") == 2
    assert "<script>alert" not in page
    assert "</script><script>.nc" not in page
    assert "i" not in tags


def test_files_are_not_overwritten_and_paths_are_checked(written, report_inputs):
    with pytest.raises(FileExistsError):
        write_report(written[0], report_inputs)
    with pytest.raises(ArgumentError, match=r"path is 'a\.pdf'; a file that ends in \.html"):
        write_report("a.pdf", report_inputs)


def test_a_missing_extra_is_named(report_inputs, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ArgumentError, match=r"'pip install msbgen\[report\]' is wanted"):
        write_report(tmp_path / "a.html", report_inputs)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ in a browser


@needs_browser
@pytest.mark.parametrize("width", browsing.WIDTHS)
def test_the_page_reads_well(chromium, written, width):
    with browsing.opened(chromium, written[0], width=width) as (page, complaints):
        assert browsing.faults(page) == []
        browsing.open_all(page)
        for scheme, media in browsing.LOOKS:
            page.emulate_media(media=media, color_scheme=scheme)
            assert browsing.faults(page) == []
            is_narrow = width == min(browsing.WIDTHS)
            if is_narrow or media == "print":  # colours depend on no width
                assert browsing.violations(page, colours=is_narrow) == []
        assert complaints == []


@needs_browser
def test_darker_is_longer_in_every_look(chromium, written):
    """A map, as its legend says, is read the same by day, by night and on paper."""
    with browsing.opened(chromium, written[0]) as (page, _):
        assert "the darker, the longer:" in page.text_content(".legend.shades")
        for scheme, media in browsing.LOOKS:
            page.emulate_media(media=media, color_scheme=scheme)
            colours = page.evaluate(
                "[...document.querySelectorAll('.key.shade')]"
                ".map(e => getComputedStyle(e).backgroundColor.match(/\\d+/g).map(Number))"
            )
            luminance = np.array(colours)[:, :3] @ [0.2126, 0.7152, 0.0722]
            assert len(luminance) == 9
            assert np.all(np.diff(luminance) < 0)


@needs_browser
def test_hostile_names_do_no_harm(chromium, hostile):
    with browsing.opened(chromium, hostile[0], width=400) as (page, complaints):
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        browsing.open_all(page)
        assert browsing.faults(page) == []
        assert browsing.violations(page) == []
        for element in page.query_selector_all("h1, caption, [aria-label]"):
            element.dispatch_event("mouseover")
        assert page.query_selector("main img, [onmouseover], [onerror]") is None
        assert INJECTED in page.evaluate("document.body.textContent")  # literally
        assert complaints == []


@needs_browser
def test_the_keyboard_alone_reaches_every_context(chromium, written):
    reported = json.loads(written[1].read_text(encoding="utf-8"))["everywhere"]
    with browsing.opened(chromium, written[0]) as (page, complaints):
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.type") == "range":
                break
        answers = []
        page.keyboard.press("Home")
        for i in range(4):
            page.keyboard.press("ArrowRight") if i else None
            page.keyboard.press("Tab")
            page.keyboard.press("Home")
            for j in range(4):
                page.keyboard.press("ArrowRight") if j else None
                answers.append(page.text_content(".answer"))
            page.keyboard.press("Shift+Tab")
        assert len(set(answers)) == len(answers) == 16
        for answer, duration, bound in zip(answers, reported["duration"], reported["bound"]):
            assert f"{formatting.as_seconds(duration)} on average" in answer
            longest = f"longer than {formatting.as_seconds(bound)}"
            assert f"{longest} with probability at most 5" in answer
        box = page.locator(".map.now svg").bounding_box()
        page.mouse.click(box["x"] + 3, box["y"] + box["height"] - 3)
        assert page.text_content(".answer") in answers
        assert page.locator(".chosen .mean[d]").count() == 3
        assert page.locator(".chosen .spread[d]").count() == 3
        assert page.locator(".chosen .ticks span").count() >= 6
        assert complaints == []


@needs_browser
def test_it_begins_between_what_was_measured_and_marks_where_bounds_fail(
    chromium, report_inputs, unpainted, tmp_path
):
    bounds = report_inputs.held_out.bounds
    truth = report_inputs.held_out.truth
    ways = truth.contexts[:, 0] - 0.5  # the fewest are a level that is shown
    truth = replace(truth, contexts=np.column_stack([ways, truth.contexts[:, 1]]))
    short = np.where(ways == 2.0, 1e-3, 1e3)
    held = replace(report_inputs.held_out, truth=truth, bounds=replace(bounds, duration=short))
    page_file, numbers = write_report(tmp_path / "a.html", replace(report_inputs, held_out=held))
    reported = json.loads(numbers.read_text(encoding="utf-8"))
    loose = reported["held_out"]["regions"][loose_region(reported["held_out"])]
    assert loose["resource"] == "cache_ways"
    with browsing.opened(chromium, page_file) as (page, complaints):
        first = page.text_content(".answer")
        assert "Measured." not in first
        assert "Extrapolated" not in first
        slider = page.locator(".sliders input").first
        marked = []
        for key in ("Home", "End"):
            slider.press(key)
            marked.append(
                f"{100 * loose['exceeded']:.1f}\u00a0% of held-out runs took longer "
                f"({loose['over']} of {loose['runs']})." in page.text_content(".answer")
            )
        assert marked == [True, False]
        assert complaints == []


@needs_browser
def test_a_picker_changes_the_charts_of_the_other_resources(chromium, fitted):
    with browsing.opened(chromium, fitted[0]) as (page, complaints):
        charts = page.locator(".charts:visible")
        assert (charts.count(), charts.get_attribute("data-key")) == (1, "1")  # it is measured
        assert charts.locator(".run:not(.halo)").count() == 2
        slider = page.locator(".sliders input").nth(2)
        for key, place, word in (("Home", "0", "gcc"), ("End", "2", "<svg onload=alert(2)>")):
            slider.press(key)
            assert (charts.count(), charts.get_attribute("data-key")) == (1, place)
            assert word in charts.locator("h3").text_content()
            assert word in slider.get_attribute("aria-valuetext")
        graph = charts.locator(".graph").nth(1)
        box = graph.bounding_box()
        graph.click(position={"x": box["width"] - 2, "y": 20})
        assert "ways\u2069 4" in page.text_content(".answer")
        assert "clock\u2069 2\u00a0GHz" in page.text_content(".answer")
        assert graph.locator(".rule").get_attribute("d") == "M1000 0V1000"
        page.emulate_media(media="print")
        assert (charts.count(), charts.get_attribute("data-key")) == (1, "2")
        assert complaints == []
    with browsing.opened(chromium, fitted[0], scripts=False) as (page, _):
        assert page.locator(".charts:visible").count() == 3
        page.emulate_media(media="print")
        assert page.locator(".charts:visible").get_attribute("data-key") == "1"


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_words_of_levels_are_text(chromium, fitted, width):
    with browsing.opened(chromium, fitted[0], width=width) as (page, complaints):
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        browsing.open_all(page)
        assert browsing.faults(page) == []
        assert browsing.violations(page, colours=width == 390) == []
        assert page.query_selector("[onclick], [onload], main b[onclick]") is None
        assert page.get_by_text("The saved model keeps no counters").count() == 1
        assert page.get_by_text("<b onclick=alert(1)>&").count() >= 2
        assert complaints == []


@needs_browser
def test_the_verdict_comes_first_and_says_its_colour(chromium, written):
    with browsing.opened(chromium, written[0], width=390) as (page, _):
        first, *rest = page.locator("#verdict > *").all()
        assert first.text_content().strip().split(":")[0] in summary.WORDS.values()
        assert first.locator("svg").count() == 1
        assert rest[0].locator(".tile .number").count() == 3
        lowest = page.locator(".tile").last.bounding_box()
        assert lowest["y"] + lowest["height"] < 900  # all three on the first screen
        assert page.evaluate("document.body.textContent.search('\\u202e')") == -1


@needs_browser
def test_marks_of_direction_stay_within_their_name(chromium, hostile):
    with browsing.opened(chromium, hostile[0]) as (page, _):
        outside = page.evaluate(
            "() => { const out = []; const walker = document.createTreeWalker(document.body, 4);"
            "while (walker.nextNode()) { const t = walker.currentNode;"
            "if (/[\u202a-\u202e]/.test(t.data) && !t.parentElement.closest('bdi, script'))"
            "out.push(t.data.slice(0, 60)); } return out; }"
        )
        assert outside == []


@needs_browser
def test_names_are_not_broken_on_a_telephone(chromium, written):
    with browsing.opened(chromium, written[0], width=400) as (page, _):
        browsing.open_all(page)
        lines = page.evaluate(
            "[...document.querySelectorAll('th bdi, th data')].map(e => e.getClientRects().length)"
        )
        assert len(lines) > 20
        assert max(lines) == 1


@needs_browser
def test_without_scripts_everything_else_is_there(chromium, written):
    with browsing.opened(chromium, written[0], scripts=False) as (page, complaints):
        assert page.locator(".map:visible").count() == page.locator(".map").count() >= 1
        assert not page.locator(".explorer").is_visible()
        assert complaints == []


def test_what_is_missing_stands_in_its_place(report_inputs, unpainted, tmp_path):
    none = Unavailable("There is none of it.")
    bare = replace(report_inputs, held_out=none, convergence=none, next=none)
    bare = replace(bare, everywhere=replace(report_inputs.everywhere, bounds=none, spread=none))
    page, _ = write_report(tmp_path / "report.html", bare)
    assert page.read_text(encoding="utf-8").count("There is none of it.") >= 5


@needs_browser
def test_of_many_maps_a_few_are_printed(chromium, report_inputs, unpainted, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_MOST_PRINTED", 0)
    path, _ = write_report(tmp_path / "report.html", report_inputs)
    with browsing.opened(chromium, path) as (page, _):
        for media, shown in (("screen", False), ("print", True)):
            page.emulate_media(media=media)
            assert (
                page.get_by_text("On paper there are the first 0 of 1 maps").is_visible() == shown
            )
            assert page.locator("figure.map").is_visible() != shown


@needs_browser
@pytest.mark.parametrize("scripts", [True, False])
def test_what_is_closed_is_printed(chromium, written, scripts):
    with browsing.opened(chromium, written[0], scripts=scripts) as (page, _):
        tables = page.locator("details table")
        assert not tables.first.is_visible()
        page.emulate_media(media="print")
        assert all(tables.nth(i).bounding_box() for i in range(tables.count()))
        if scripts:  # for browsers whose style sheets cannot open it
            opened = []
            for event in ("beforeprint", "afterprint"):
                page.evaluate(f"dispatchEvent(new Event('{event}'))")
                opened.append(page.locator("details[open]").count())
            assert opened == [page.locator("details").count(), 0]
