"""Where results go: JSON files beside the benchmarks, tables between the markers of the README."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PROFILES = ROOT / "profiles"
README = ROOT / "benchmarks" / "README.md"
TASKS = ("bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def store(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def kept(path: Path | None, make: Callable[[], Any]) -> Any:
    """What a file holds, or, where there is none yet, what is made, stored there."""
    if path is None:
        return make()
    if not path.exists():
        written = path.with_suffix(".new")
        store(written, make())
        written.replace(path)
    return json.loads(path.read_text())


def put_into_readme(name: str, text: str, readme: Path = README) -> None:
    """Print the table, and put it between the markers of that name."""
    print(f"\n{name}\n\n{text}", flush=True)
    marker = f"<!-- results: {name} -->\n"
    before, found, rest = readme.read_text(encoding="utf-8").partition(marker)
    if not found:
        raise LookupError(f"{readme} has no place for the table '{name}'")
    _, _, after = rest.partition("<!-- end -->")
    readme.write_text(f"{before}{marker}{text}\n<!-- end -->{after}", encoding="utf-8")
