"""Reports as a browser shows them: what it complains of, and what a reader would."""

import shutil
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
WIDTHS = (400, 1600)
LOOKS = (("light", "screen"), ("dark", "screen"), ("light", "print"))


def lacking():
    """What is missing to open pages, as a sentence with the remedy; nothing where all is there."""
    if find_spec("playwright") is None or find_spec("axe_playwright_python") is None:
        return "playwright is not installed; pip install -e '.[test]' brings it."
    return "" if CHROMIUM else "chromium is not installed; apt-get install chromium brings it."


@contextmanager
def browser():
    """A browser without a window."""
    assert not lacking(), lacking()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(started, path, *, width=1600, scheme="light", media="screen", scripts=True):
    """A page, its complaints: console messages, errors, requests for anything but itself."""
    context = started.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
    )
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    url = Path(path).resolve().as_uri()
    page.on(
        "request", lambda r: r.url == url or r.url.startswith("data:") or complaints.append(r.url)
    )
    page.emulate_media(media=media, color_scheme=scheme)
    try:
        page.goto(url, wait_until="load")
        yield page, complaints
    finally:
        context.close()


# Wider than the window, and what is written smaller than 11 px on the screen.
_FAULTS = """() => {
  const root = document.documentElement, faults = [];
  if (root.scrollWidth > root.clientWidth) faults.push(`${root.scrollWidth} px wide`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, parent = text.parentElement;
    if (!text.textContent.trim() || parent.closest("script, style, noscript")) continue;
    if (!parent.checkVisibility({visibilityProperty: true})) continue;
    let size = parseFloat(getComputedStyle(parent).fontSize);
    const svg = parent.closest("svg");
    if (svg) { const m = parent.getScreenCTM(); size *= Math.hypot(m.c, m.d); }
    if (size < 11) faults.push(`${size} px: ${text.textContent.trim().slice(0, 40)}`);
  }
  return faults;
}"""


def faults(page):
    """What of a page is too wide, or too small to read."""
    return page.evaluate(_FAULTS)


def violations(page, *, colours=True):
    """What axe finds wrong, with the contrasts of `colours`, which take most of the time."""
    import axe_playwright_python

    folder = Path(axe_playwright_python.__file__).parent
    (script,) = folder.rglob("axe.min.js")
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(script.read_text(encoding="utf-8"))
    # of the rows of a table, which look alike but for those with a class, the first ones
    few = "{exclude: [['tr:nth-child(n+4):not([class])']]}"
    rules = f"{{rules: {{'color-contrast': {{enabled: {str(colours).lower()}}}}}}}"
    found = page.evaluate(f"async () => (await axe.run({few}, {rules})).violations")
    return [
        f"{v['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for v in found
        for node in v["nodes"]
    ]


def open_all(page):
    """Unfold everything that is folded."""
    page.evaluate("() => document.querySelectorAll('details').forEach(d => d.open = true)")
