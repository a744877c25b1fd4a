"""The index: the worst first, reasons, links, and names that strangers gave."""

import re
from html.parser import HTMLParser

import browsing
from components import needs
from msbgen.output.batch.execute import BatchStep, StepResult
from msbgen.output.batch.index import write_index
from msbgen.output.batch.job import Job
from msbgen.output.batch.manifest import DONE, FAILED, unit_record
from msbgen.output.batch.state import TaskState
from msbgen.output.batch.tasks import BatchTask, TaskSettings

STEPS = {"evaluate": BatchStep(lambda job: StepResult([]))}
FACTS = {"contexts": 1, "blocks": {}, "within": {}}


def state(tmp_path, name, error=None, failure=None, files=()):
    made = TaskState(
        Job(BatchTask(name, tmp_path / "x.nc", settings=TaskSettings(kinds=())), tmp_path), STEPS
    )
    task = made.job.task
    made.end(unit_record(task, "fit", DONE, {"facts": FACTS, "seconds": 61.25}))
    if failure is not None:
        made.end(unit_record(task, "evaluate", FAILED, {"error": failure}))
    if error is not None:
        facts = {"figures": {"error": error, "baseline": 0.5, "grade": 2.0}}
        sizes = {file: 1_500_000 for file in files}
        fields = {"facts": facts, "files": sizes, "bytes": sum(sizes.values())}
        made.end(unit_record(task, "evaluate", DONE, fields))
    return made


class Rows(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "a":
            self.links.append(dict(attrs)["href"])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_failed_tasks_come_first_then_the_worst(tmp_path):
    names = ["<script>alert(1)</script>", "مهمة", 'a"b', "bad & <i>", "waiting"]
    states = [
        state(tmp_path, names[0], 0.02, files=["report.html", "mean.nc"]),
        state(tmp_path, names[1], 0.04),
        state(tmp_path, names[2], 0.03),
        state(tmp_path, names[3], failure="<b>" + "x" * 500),
        state(tmp_path, names[4]),
    ]
    write_index(tmp_path, states)
    text = (tmp_path / "index.html").read_text()
    page = Rows(text)
    assert page.rows[0][:3] == ["Task", "State", "Verdict"]
    assert [row[0] for row in page.rows[1:]] == [names[i] for i in (3, 4, 1, 2, 0)]
    assert page.rows[1][1].startswith("failed: evaluate: <b>xxx")
    assert len(page.rows[1][1]) < 200
    assert page.rows[2][1] == "not complete"
    assert page.rows[2][2] == ""
    assert page.rows[3][1:4] == ["complete", "▲ Use with care", "0.0400"]
    assert page.rows[3][4:7] == ["0.5000", "61.2 s", "0.00 MB"]
    assert [cell.strip() for cell in page.rows[5][6:]] == ["3.00 MB", "report files"]
    assert "script" not in page.tags
    assert "i" not in page.tags
    folder = "%3Cscript%3Ealert%281%29%3C/script%3E"
    assert page.links == [f"{folder}/report.html", f"{folder}/"]
    assert "5 tasks: 3 complete, 1 with failures" in text
    assert not re.search(r"https?://", text)


def test_ten_thousand_rows_are_less_than_five_megabytes(tmp_path):
    one = state(tmp_path, "a task with a name of some length", 0.02, files=["report.html"])
    write_index(tmp_path, [one])
    assert "<p>1 task: 1 complete, 0 with failures." in (tmp_path / "index.html").read_text()
    empty = tmp_path / "empty"
    empty.mkdir()
    write_index(empty, [])
    row = (tmp_path / "index.html").stat().st_size - (empty / "index.html").stat().st_size
    assert row * 10_000 < 5e6


@needs("chromium", browsing.lacking())
def test_names_are_text_in_a_browser(tmp_path, chromium):
    hostile = "<img src=x onerror=alert(1)>\"' <script>alert(2)</script>"
    states = [state(tmp_path, hostile, 0.02, files=["report.html"]), state(tmp_path, "b", 0.5)]
    states.append(state(tmp_path, f"{hostile}c", failure=hostile))
    write_index(tmp_path, states)
    with browsing.opened(chromium, tmp_path / "index.html") as (page, complaints):
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        browsing.open_all(page)
        assert page.evaluate("document.body.textContent").count(hostile) >= 3
        assert page.query_selector("img, [onerror]") is None
        assert complaints == []
