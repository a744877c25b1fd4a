"""Runtimes never measured: the predictor beside every peer and without each of its parts.

``python benchmarks/reproduce.py runtimes [--only cells] [--data FOLDER] [--work FOLDER]
[--no-fit]``. ``--data`` reads the npz archives of the paper's authors instead of the data that
ship; ``--work`` keeps fits and scores, so that an interrupted study goes on. The part ``cells``
needs neither: it is the coverage in cells of random tables.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import runtimes_cells
import runtimes_pictures
from numpy.typing import NDArray
from runtimes_fits import ABLATED, ABLATIONS, MODELS, SETTINGS, Case, Fits, jobs
from runtimes_peers import PEERS
from tables import RESULTS, markdown, mean_rows, parser, publish, store, stored

import msbgen
from msbgen.core.errors import MeasurementError
from msbgen.systems.runtimes.calibration import CalibrationPool
from msbgen.systems.runtimes.evaluation import RATES, score_predictions
from msbgen.systems.runtimes.readers import import_archives
from msbgen.systems.runtimes.spread import WIDTHS

Floats = NDArray[np.float64]

METHODS = (*MODELS, *PEERS)
# Goals: mean relative error alone and beside one, and margin by rate.
ERRORS = {
    ("rows", 0.1): (0.078, 0.075),
    ("rows", 0.5): (0.042, 0.044),
    ("rows", 0.9): (0.037, 0.040),
    ("cells", 0.5): (0.050, 0.054),
}
MARGINS = {
    0: dict(zip(RATES, (0.069, 0.098, 0.15, 0.205))),
    1: dict(zip(RATES, (0.074, 0.103, 0.145, 0.19))),
}
ALONE = ("alone", "beside one")


def run(data: Path | None, work: Path | None, fit: bool = True) -> None:
    """Fit what is missing, score, store, draw."""
    if data is None:
        dataset = msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc"))
    else:
        dataset, _ = import_archives(data)
    with tempfile.TemporaryDirectory(prefix="msbgen-runtime-") as passing:
        fits = Fits(dataset, work or Path(passing))
        for name, case in jobs():
            if fit:
                fits.make(name, case)
        content = measure(fits)
        store(RESULTS / "runtime.json", content)
        runtimes_pictures.draw(content, fits)


def measure(fits: Fits) -> dict[str, Any]:
    """Scores of every finished fit, and their summary."""
    made = [(name, case) for name, case in jobs() if fits.has(name, case)]
    scores: dict[str, dict[str, Any]] = {}
    for name, case in made:
        of = scores.setdefault(name, {}).setdefault(_setting(case.split, case.share), {})
        of[str(case.replicate)] = fits.kept("score", name, case, partial(score, fits, name, case))
    heads = [
        fits.kept("heads", name, case, partial(score_heads, fits, case))
        for name, case in made
        if name == "default" and (case.split, case.share) == ("rows", 0.5)
    ]
    return {
        "scores": scores,
        "heads": {
            width: _mean([one[width] for one in heads]) for width in (heads[0] if heads else ())
        },
        "lead": lead(scores),
    }


def score(fits: Fits, name: str, case: Case) -> list[dict[str, Any]]:
    """Errors and bounds on held-out runs, for each number of neighbours."""
    tested, degree = fits.tested_rows(case), fits.data.runs.n_neighbours
    if name in MODELS:
        predictor, runs = fits.predictor(name, case), fits.table[tested]
        predicted = predictor.predict(runs)
        rates = [rate for rate in RATES if predictor.supported_rate(runs, rate) == rate]
        bounds = {rate: predictor.predict_bound(runs, rate) for rate in rates}
    else:
        log = fits.predicted(name, case)
        predicted, bounds = np.exp(log[tested]), {}
        if name in PEERS:
            even = np.ones((1, len(log)))
            bounds = conformal(fits, case, log[None], even, tested)
    return score_predictions(fits.runtime[tested], degree[tested], predicted, bounds)


def score_heads(fits: Fits, case: Case) -> dict[str, list[dict[str, Any]]]:
    """Margins of the predictor's bounds from each width alone."""
    predictor, runs = fits.predictor("default", case), fits.data.runs
    locations, deviation, correction = predictor._locations(runs, predictor.members_)
    widths = predictor.spread_.widths(runs, deviation, correction)
    tested, found = fits.tested_rows(case), {}
    for name in WIDTHS:
        width = widths[WIDTHS.index(name)][None]
        bounds = conformal(fits, case, locations, width, tested)
        found[name] = score_predictions(
            fits.runtime[tested], runs.n_neighbours[tested], np.exp(locations[0, tested]), bounds
        )
    return found


def conformal(
    fits: Fits, case: Case, location: Floats, width: Floats, tested: NDArray[np.int64]
) -> dict[float, Floats]:
    """Bounds [s] by rate, (n,), in pools by the number of neighbours, like the predictor's.

    Locations and widths are those of all runs, (1, n_runs).
    """
    part, degree = fits.part(case), fits.data.runs.n_neighbours
    bounds: dict[float, Floats] = {}
    for rate in RATES:
        log = np.full(len(tested), -np.inf)
        try:
            for count in np.unique(degree):
                calibration = part.held & (degree == count)
                unit = np.unique(part.unit[calibration], return_inverse=True)[1]
                both = location[:, calibration], width[:, calibration]
                pool = CalibrationPool(fits.data.log_runtime[calibration], *both, unit)
                here = degree[tested] == count
                at = tested[here]
                for offset, _, _ in pool.offsets(rate):
                    log[here] = np.maximum(log[here], location[0, at] + offset * width[0, at])
        except MeasurementError:  # too few calibration runs for the rate
            continue
        bounds[rate] = np.exp(log)
    return bounds


def lead(scores: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Shares by which error and margins are below the best peer's and the paper preset's.

    They are on common replicates; `each` names every fraction, number of neighbours and rate.
    """
    found: dict[str, Any] = {}
    for against in ("next best peer", "paper preset"):
        each: dict[str, dict[str, float]] = {"error": {}, "margin": {}}
        for setting, ours in scores.get("default", {}).items():
            if not setting.startswith("rows"):
                continue
            for degree in (0, 1):
                keys = ["error", *(f"margin_{rate:g}" for rate in RATES)]
                for key in keys:
                    below = [
                        _below(ours, theirs, degree, key)
                        for name, of in scores.items()
                        if (name in PEERS if against == "next best peer" else name == against)
                        for theirs in [of.get(setting, {})]
                    ]
                    below = [x for x in below if x is not None]
                    if below:
                        kind = key.partition("_")[0]
                        each[kind][f"{setting}, {ALONE[degree]}, {key}"] = min(below)
        found[against] = {
            kind: {"mean": float(np.mean(list(values.values()))), "each": values}
            for kind, values in each.items()
            if values
        }
    return found


def _below(ours: dict, theirs: dict, degree: int, key: str) -> float | None:
    """Share by which our mean is smaller, on common replicates."""
    common = sorted(set(ours) & set(theirs))
    pairs = [(ours[r][degree].get(key), theirs[r][degree].get(key)) for r in common]
    pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not pairs:
        return None
    mine, other = np.mean(pairs, axis=0)
    return float(1.0 - mine / other)


def _mean(replicates: Sequence[list[dict[str, Any]]]) -> list[dict[str, float]]:
    """Mean rows over replicates."""
    return [mean_rows(rows) for rows in zip(*replicates)]


def _setting(split: str, share: float) -> str:
    return f"{split} {share:g}"


def tables() -> dict[str, str]:
    """All tables of the page."""
    content, found = stored("runtime"), {}
    scores, settings = content["scores"], [_setting(*s) for s in SETTINGS]
    rows = []
    for name in (m for m in METHODS if m in scores):
        cells = [_errors(scores[name].get(s)) for s in settings]
        counts = sorted({len(of) for of in scores[name].values()})
        rows.append([name, *cells, "–".join(map(str, counts[:1] + counts[1:][-1:]))])
    header = ["error alone / beside one [%]", *(_words(s) for s in settings), "replicates"]
    found["runtime"] = markdown(header, rows)
    rows = []
    for name in (m for m in METHODS if m in scores):
        for degree in (0, 1):
            mean = _mean(list(scores[name]["rows 0.5"].values()))[degree]
            rows.append(
                [name, ALONE[degree], *(f"{100 * mean[f'margin_{r:g}']:.1f}" for r in RATES)]
            )
    header = ["margin at half known [%]", "", *(f"{100 * r:g} % may take longer" for r in RATES)]
    found["runtime-margins"] = markdown(header, rows)
    rows = []
    for setting, of in scores["default"].items():
        for degree in (0, 1):
            mean = _mean(list(of.values()))[degree]
            got = [mean.get(f"coverage_{r:g}") for r in RATES]
            cells = ["—" if c is None else f"{100 * c:.2f}" for c in got]
            rows.append([_words(setting), ALONE[degree], *cells])
    header = ["coverage [%]", "", *(f"nominal {100 * (1 - r):g}" for r in RATES)]
    found["runtime-coverage"] = markdown(header, rows)
    ablated = [_setting(*s) for s in ABLATED]
    rows = [
        [name, *(_errors(scores[name].get(s), "0") for s in ablated)]
        for name in ("default", *ABLATIONS)
        if name in scores
    ]
    header = ["error alone / beside one [%], first replicate", *map(_words, ablated)]
    found["runtime-ablations"] = markdown(header, rows)
    rows = []
    for width, row in content["heads"].items():
        cells = [f"{100 * row[degree][f'margin_{r:g}']:.1f}" for degree in (0, 1) for r in RATES]
        rows.append([width, *cells])
    header = ["width", *(f"{where}, {100 * r:g} %" for where in ALONE for r in RATES)]
    found["runtime-heads"] = markdown(header, rows)
    words = {True: "met", False: "missed"}
    rows = [[*row[:3], words[bool(row[3])] if row[2] else ""] for row in verdicts(content)]
    found["runtime-targets"] = markdown(["figure", "measured", "goal", ""], rows)
    found["runtime-cells"] = runtimes_cells.table(stored("runtime-cells"))
    return found


def verdicts(content: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """Every figure with a goal: name, measured, goal, met."""
    ours = {s: _mean(list(of.values())) for s, of in content["scores"]["default"].items()}
    rows = []
    for (split, share), goal in ERRORS.items():
        for degree in (0, 1):
            error = ours[_setting(split, share)][degree]["error"]
            name = f"error, {_words(_setting(split, share))}, {ALONE[degree]}"
            rows.append((name, f"{100 * error:.2f} %", f"≤ {100 * goal[degree]:g} %"))
            rows[-1] += (error <= goal[degree],)
    for setting, most in (("rows 0.5", 0.0), ("cells 0.5", 1 / 3000)):
        of = content["scores"]["default"][setting].values()
        off, n = np.sum([[r["tenfold"], r["observations"]] for one in of for r in one], axis=0)
        goal = "none" if most == 0 else "≤ 1 in 3,000"
        rows.append((f"tenfold off, {_words(setting)}", f"{off} of {n:,}", goal, off <= most * n))
    for degree, goal in MARGINS.items():
        for rate, most in goal.items():
            margin = ours["rows 0.5"][degree][f"margin_{rate:g}"]
            name = f"margin at half known, {ALONE[degree]}, {100 * rate:g} %"
            rows.append((name, f"{100 * margin:.1f} %", f"≤ {100 * most:g} %", margin <= most))
    for few in (True, False):
        gap = max(
            abs(row[f"coverage_{r:g}"] - 1 + r)
            for setting, of in ours.items()
            if setting.endswith("0.1") == few
            for row in of
            for r in RATES
            if f"coverage_{r:g}" in row
        )
        name = "coverage, 10 % known" if few else "coverage, all other splits"
        most = 0.01 if few else 0.005
        goal = f"within {100 * most:g} points"
        rows.append((name, f"{100 * gap:.2f} points off at most", goal, gap <= most))
    lead_goals = {"next best peer": (0.40, 0.46), "paper preset": (0.15, 0.15)}
    for against, least in lead_goals.items():
        for kind, share in zip(("error", "margin"), least):
            if kind in content["lead"].get(against, {}):
                mean = content["lead"][against][kind]["mean"]
                name = f"{kind} below the {against}, mean"
                rows.append((name, f"{100 * mean:.0f} %", f"≥ {100 * share:g} %", mean >= share))
                each = content["lead"][against][kind]["each"]
                where = min(each, key=each.__getitem__)
                rows.append((f"least of these: {where}", f"{100 * each[where]:.0f} %", "", True))
    return rows


def _errors(of: dict[str, Any] | None, only: str | None = None) -> str:
    if not of or (only is not None and only not in of):
        return "—"
    mean = _mean([of[only]] if only is not None else list(of.values()))
    return " / ".join(f"{100 * row['error']:.2f}" for row in mean)


def _words(setting: str) -> str:
    split, share = setting.split()
    return f"{100 * float(share):g} % of {split}"


def main() -> None:
    found = parser(
        __doc__, ("methods", "cells"), work="folder that keeps the fits",
        data="folder of npz archives; without, what ships",
    )  # fmt: skip
    found.add_argument("--no-fit", action="store_true", help="score the fits that are there")
    options = found.parse_args()
    if "methods" in options.only:
        run(options.data, options.work, fit=not options.no_fit)
    if "cells" in options.only:
        store(RESULTS / "runtime-cells.json", runtimes_cells.measure())
    publish(tables())
