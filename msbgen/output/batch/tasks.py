"""Tasks of a batch and their settings.

A TOML file lists the tasks, with defaults and settings of each; in a folder of profile files each
file is a task.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

from msbgen.answers.evaluate.scores import METHODS
from msbgen.answers.plan.plan import parse_budget
from msbgen.core.contexts import grid_counts
from msbgen.core.durations import parse_seconds
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.records import check_keys
from msbgen.data import toml
from msbgen.data.files import check_input
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.fit import PRESETS
from msbgen.output.batch import BUDGET, MISCOVERAGE

# Longest name of a task, which names its folder [bytes].
_LONGEST = 200
# Characters of a name in messages.
# File names of the batch itself, which no task may have.
_TAKEN = ("manifest.jsonl", "index.html")
# Keys of a task beyond its settings, with their types.
_OWN = {
    "name": "a name in quotes",
    "measured": "a file's name in quotes",
    "truth": "a file's name in quotes",
}


@dataclass(frozen=True)
class TaskSettings:
    """Settings of a task; each field is a key in TOML."""

    kinds: tuple[Kind, ...] = ("mean", "max_likelihood", "sample")  # of profiles to generate
    contexts: str = "all"  # as --contexts: "all", "grid:AxB…" or a file beside the tasks' file
    samples: int = 10  # random profiles of each context, kind "sample"
    interval: str = ""  # output interval, such as "10ms"; "" for the measured one
    preset: str = "default"  # of the fit
    seed: int = 0  # of all random draws
    steps: tuple[str, ...] = ("all",)  # after generation; "all" for every one
    miscoverage: float = MISCOVERAGE  # probability that a new run exceeds its bound
    leave_out: int | None = None  # contexts at a time, for scores without a truth; None: a quarter
    methods: tuple[str, ...] = ("default/mean", "bracketing")  # to score
    budget: str = str(BUDGET)  # of the plan: a time, such as "60s", or a number of contexts
    keep_all: bool = False  # whether every measured run is trusted, and no fault is looked for

    @property
    def times(self) -> float | None:
        """Output interval [s]; None for the measured one."""
        return parse_seconds(self.interval) if self.interval else None


@dataclass(frozen=True)
class BatchTask:
    """A task of a batch; its folder has its name."""

    name: str
    measured: Path
    truth: Path | None = None  # measured profiles of other contexts, to score against
    settings: TaskSettings = field(default_factory=TaskSettings)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Input files: `measured`, then the truth and the file of contexts, if any."""
        contexts = Path(self.settings.contexts)
        listed = None if is_rule(self.settings.contexts) else contexts
        return tuple(path for path in (self.measured, self.truth, listed) if path)

    @property
    def wanted(self) -> dict[str, Any]:
        """The settings as JSON values."""
        wanted = {**asdict(self.settings), "truth": bool(self.truth)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in wanted.items()}

    @property
    def digest(self) -> str:
        """Digest of the settings."""
        content = json.dumps(self.wanted, sort_keys=True)
        return blake2b(content.encode(), digest_size=8).hexdigest()


def is_rule(contexts: str) -> bool:
    """Whether contexts are ``all`` or a grid, not a file."""
    return contexts == "all" or contexts.startswith("grid:")


def read_tasks(
    source: Path, defaults: TaskSettings | None = None, steps: Sequence[str] = ()
) -> list[BatchTask]:
    """Read the tasks of a TOML file, or of a folder of profile files, in order.

    The file has a table ``[defaults]`` and an array of tables ``[[task]]``, each with ``measured``
    (beside the file), ``name`` (that of the file), ``truth``, and fields of :class:`TaskSettings`.
    In a folder, each ``*.nc`` is a task, with ``*-truth.nc`` beside it to score against.  Other
    settings are `defaults`; without known `steps`, any name of a step is accepted.

    Raises
    ------
    ProfileError
        No such file or folder, no task, an unknown key, an invalid value, or a name that is
        duplicate or invalid for a folder.
    """
    base = defaults or TaskSettings()
    tasks = _of_folder(source, base) if source.is_dir() else _of_toml(source, base, steps)
    if not tasks:
        raise ProfileError(f"{source}: holds no task; add a profile file (*.nc).")
    seen: set[str] = set()
    for task in tasks:
        _check_name(task.name, source)
        if task.name in seen:
            raise ProfileError(f"{source}: task '{task.name}' occurs twice; rename one.")
        seen.add(task.name)
    return tasks


def _of_folder(folder: Path, settings: TaskSettings) -> list[BatchTask]:
    files = {path.stem: path.resolve() for path in sorted(folder.glob("*.nc"))}
    truths = {name for name in files if name.endswith("-truth") and name[:-6] in files}
    return [
        BatchTask(name, path, files.get(f"{name}-truth"), settings)
        for name, path in files.items()
        if name not in truths
    ]


def _of_toml(path: Path, base: TaskSettings, steps: Sequence[str]) -> list[BatchTask]:
    if path.suffix == ".nc" and path.is_file():
        raise ProfileError(
            f"{path.name}: is a profile file; name a TOML file of tasks or a folder of profile "
            f"files."
        )
    path, content = toml.read_toml(path)
    check_keys(content, ("defaults", "task"), ("task",), path.name)
    defaults = content.get("defaults", {})
    if not isinstance(defaults, dict):
        raise ProfileError(f"{path.name}: 'defaults' is {quoted(defaults)}; a table is wanted.")
    folder = path.resolve().parent
    base = _settings(defaults, base, folder, steps, f"{path.name}, [defaults]")
    tasks = []
    for number, entry in enumerate(toml.tables(content, "task", path.name), start=1):
        where = f"{path.name}, task {number}"
        keys = [f.name for f in fields(TaskSettings)]
        check_keys(entry, (*_OWN, *keys), ("measured",), where)
        named = {
            key: toml.name(entry, key, where, kind) for key, kind in _OWN.items() if key in entry
        }
        measured = folder / named["measured"]
        truth = folder / named["truth"] if "truth" in named else None
        table = {key: value for key, value in entry.items() if key not in _OWN}
        settings = _settings(table, base, folder, steps, where)
        tasks.append(BatchTask(named.get("name", measured.stem), measured, truth, settings))
    return tasks


def _settings(
    table: Mapping[str, Any], base: TaskSettings, folder: Path, steps: Sequence[str], where: str
) -> TaskSettings:
    """Settings of a table, each key checked; others from `base`."""
    defaults = {f.name: getattr(base, f.name) for f in fields(TaskSettings)}
    check_keys(table, tuple(defaults), (), where)
    values = {**defaults, **{key: _value(key, v, defaults[key], where) for key, v in table.items()}}
    settings = TaskSettings(**values)
    if "contexts" in table and not is_rule(settings.contexts):
        values["contexts"] = str(folder / settings.contexts)
        check_input(values["contexts"])
        settings = TaskSettings(**values)
    _check(settings, steps, where)
    return settings


def _value(key: str, value: Any, default: Any, where: str) -> Any:
    """Return the value, checked against the type of its default; None stands for an integer."""
    if isinstance(default, tuple):
        if key == "steps" and value == "all":
            return ("all",)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        wanted = "a list of names"
    elif isinstance(default, bool):
        if isinstance(value, bool):
            return value
        wanted = "true or false"
    elif isinstance(default, float):
        return toml.amount(value, key, where)
    elif default is None or isinstance(default, int):
        if type(value) is int:
            return value
        wanted = "a whole number"
    else:
        if isinstance(value, str):
            return value
        if key == "budget" and type(value) is int:
            return str(value)
        wanted = "a time, such as '60s', or a whole number" if key == "budget" else "a text"
    raise ProfileError(f"{where}: '{key}' is {quoted(value)}; {wanted} is wanted.")


def _check(settings: TaskSettings, steps: Sequence[str], where: str) -> None:
    kinds = get_args(Kind)
    for key, found, known in (
        ("kinds", settings.kinds, kinds),
        ("methods", settings.methods, METHODS),
        ("preset", (settings.preset,), tuple(PRESETS)),
        ("steps", settings.steps, (*steps, "all") if steps else settings.steps),
    ):
        for value in found:
            if value not in known:
                raise ProfileError(
                    f"{where}: '{key}' holds {quoted(value)}; {', '.join(known)} are known."
                )
    if not settings.kinds and not settings.steps:
        raise ProfileError(
            f"{where}: 'kinds' and 'steps' are both empty; name a kind of profiles or a step."
        )
    if len(set(settings.kinds)) < len(settings.kinds):
        raise ProfileError(f"{where}: 'kinds' names a kind twice; name it once.")
    for key, least in (("samples", 1), ("seed", 0), ("leave_out", 1)):
        value = getattr(settings, key)
        if value is not None and not least <= value < 2**63:
            wanted = f"≥ {least}" if value < least else f"from {least} to 2^63 - 1"
            raise ProfileError(
                f"{where}: '{key}' is {quoted(value)}; a whole number {wanted} is wanted."
            )
    if not 0 < settings.miscoverage < 1:
        raise ProfileError(
            f"{where}: 'miscoverage' is {settings.miscoverage}; a share above 0 and below 1 is "
            f"wanted."
        )
    try:
        wrong = settings.times is not None and not settings.times > 0
    except ArgumentError as error:
        raise ProfileError(f"{where}: 'interval' {error}") from None
    if wrong:
        raise ProfileError(f"{where}: 'interval' is not a time above 0, such as 10ms.")
    try:
        parse_budget(settings.budget)
        if settings.contexts.startswith("grid:"):
            grid_counts(settings.contexts.removeprefix("grid:"))
    except ArgumentError as error:
        raise ProfileError(f"{where}: {error}") from None


def _check_name(name: str, source: Path) -> None:
    plain = name.isprintable() and "/" not in name and not name.startswith((".", " "))
    if not plain or name in _TAKEN:
        raise ProfileError(
            f"{source}: task {quoted(name)} cannot name a folder; a name without '/', control "
            f"characters or a dot in front is wanted."
        )
    if len(name.encode("utf-8", "surrogatepass")) > _LONGEST:
        raise ProfileError(
            f"{source}: the name of task {quoted(name)} has {len(name)} characters; one of at most "
            f"{_LONGEST} bytes is wanted (key 'name')."
        )
