"""The README, the pages beside it, and the code that they show."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("msbgen/**/*.md")), *sorted(ROOT.glob("profiles/**/*.md"))]
STUDIES = sorted({*ROOT.glob("benchmarks/*.md")} - {ROOT / "benchmarks" / "README.md"})
# Pages with links, and with no code to run.
OTHERS = [
    ROOT / "benchmarks" / "README.md",
    *STUDIES,
    *(ROOT / ".github" / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")),
]


def blocks(language, page=README):
    """The blocks of a language on a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
