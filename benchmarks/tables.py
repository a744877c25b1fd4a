"""Where results go: JSON files beside the benchmarks, tables between the markers of READMEs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PROFILES = ROOT / "profiles"
READMES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
TASKS = ("bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def store(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def put_into_readme(name: str, text: str, readmes: Sequence[Path] = READMES) -> None:
    """Print the table; put it between the markers of that name, where a README has any."""
    marker = f"<!-- results: {name} -->\n"
    for readme in readmes:
        before, found, rest = readme.read_text(encoding="utf-8").partition(marker)
        if found:
            _, _, after = rest.partition("<!-- end -->")
            readme.write_text(f"{before}{marker}{text}\n<!-- end -->{after}", encoding="utf-8")
    print(f"\n{name}\n\n{text}", flush=True)
