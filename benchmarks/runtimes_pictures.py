"""Pictures of predicted runtimes: errors, margins, embeddings, interference."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from runtimes_fits import Case, Fits
from tables import RESULTS, subplots

from msbgen.systems.runtimes.evaluation import RATES

ALONE = ("alone", "beside one")
# Fits whose embeddings and interference are drawn.
MOST, HALF = Case("rows", 0.9, 0), Case("rows", 0.5, 0)


def draw(content: dict[str, Any], fits: Fits) -> None:
    draw_scores(content["scores"])
    if fits.has("default", MOST):
        draw_embeddings(fits)
    if fits.has("default", HALF):
        draw_interference(fits)


def draw_scores(scores: dict[str, Any]) -> None:
    """Draw errors against the known share, and margins against the rate, of every method."""
    methods = [m for m in scores if any("margin_0.1" in row for row in _rows(scores[m]))]
    for what in ("error", "margin"):
        figure, axes = subplots(1, 2, figsize=(10, 4))
        for degree, axis in enumerate(axes):
            for method in methods:
                if what == "error":
                    shares = [s for s in scores[method] if s.startswith("rows")]
                    x = [100 * float(s.split()[1]) for s in shares]
                    y = [_mean(scores[method][s], degree, "error") for s in shares]
                else:
                    x = [100 * rate for rate in RATES]
                    of = scores[method]["rows 0.5"]
                    y = [_mean(of, degree, f"margin_{rate:g}") for rate in RATES]
                axis.plot(x, 100 * np.array(y), marker="o", label=method)
            axis.set(title=ALONE[degree], yscale="log", ylabel=f"{what} [%]")
            axis.set_xlabel("known [%]" if what == "error" else "runs that may take longer [%]")
            axis.grid(alpha=0.3, which="both")
        axes[0].legend(fontsize="small")
        figure.savefig(RESULTS / f"runtime-{what}.png", dpi=110)


def draw_embeddings(fits: Fits) -> None:
    """Draw workloads and platforms in two dimensions; neighbours are alike."""
    from matplotlib import colormaps
    from sklearn.manifold import TSNE  # pyright: ignore[reportMissingImports]

    members = fits.predictor("default", MOST).members_.each()
    dataset = fits.dataset
    workloads, platforms = (list(map(str, dataset[d].values)) for d in ("workload", "platform"))
    titles = [str(name) for name in dataset["platform_feature"].values]
    kinds = [i for i, title in enumerate(titles) if title.startswith("uarch=")]
    chosen = dataset["platform_features"].values[:, kinds].argmax(axis=1)
    colours = {
        "workloads by suite": [re.split("[/:]", name)[0] for name in workloads],
        "platforms by runtime": [name.partition(":")[0] for name in platforms],
        "platforms by microarchitecture": [titles[kinds[k]].partition("=")[2] for k in chosen],
    }
    tables = [np.concatenate([m.workload[0] for m in members], axis=1)]
    # a platform's embedding and its directions of interference
    tables += [np.concatenate([np.hstack([*m.platform]) for m in members], axis=1)] * 2
    figure, axes = subplots(1, 3, figsize=(15, 5))
    for axis, table, (title, names) in zip(axes, tables, colours.items()):
        flat = TSNE(random_state=0, perplexity=20).fit_transform(table - table.mean(axis=0))
        palette = colormaps["tab20"]
        for k, name in enumerate(sorted(set(names))):
            mine = np.array(names) == name
            axis.scatter(*flat[mine].T, s=14, color=palette(k % 20), label=name)
        axis.set(title=title, xticks=[], yticks=[])
        axis.legend(fontsize="xx-small", markerscale=0.8, ncols=2)
    figure.savefig(RESULTS / "runtime-embeddings.png", dpi=100)


def draw_interference(fits: Fits) -> None:
    """Draw predicted and observed slowdown by neighbours on each platform."""
    predictor, runs, log = fits.predictor("default", HALF), fits.data.runs, fits.data.log_runtime
    cells = runs.shape[0] * runs.shape[1]
    first, alone = np.full(cells, np.nan), runs.n_neighbours == 0
    first[runs.cell[alone]] = log[alone]
    tested = np.flatnonzero(~fits.part(HALF).known & ~alone & np.isfinite(first[runs.cell]))
    bare = fits.table[tested].copy()
    bare[:, 2:] = -1
    slower = log[tested] - first[runs.cell[tested]]
    predicted = np.log(predictor.predict(fits.table[tested]) / predictor.predict(bare))
    platform, n = runs.platform[tested], runs.shape[1]
    count = np.bincount(platform, minlength=n)
    seen = count >= 20
    observed, learned = (
        np.exp(np.bincount(platform, values, n)[seen] / count[seen])
        for values in (slower, predicted)
    )
    figure, axes = subplots(1, 2, figsize=(10, 4.4))
    axes[0].hexbin(
        np.exp(predicted), np.exp(slower), gridsize=60, bins="log", extent=(0.8, 2.5) * 2
    )
    axes[0].set(xlabel="slowdown predicted", ylabel="observed", title="runs held back")
    axes[1].scatter(learned, observed, s=12)
    axes[1].axline((1, 1), slope=1, color="k", lw=0.8)
    axes[1].set(xlabel="mean slowdown predicted", ylabel="observed", title="platforms")
    axes[1].grid(alpha=0.3)
    text = f"correlation {np.corrcoef(learned, observed)[0, 1]:.3f}"
    axes[1].text(0.03, 0.93, text, transform=axes[1].transAxes)
    figure.savefig(RESULTS / "runtime-interference.png", dpi=100)


def _rows(of: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for replicates in of.values() for one in replicates.values() for row in one]


def _mean(replicates: dict[str, Sequence[dict[str, Any]]], degree: int, key: str) -> float:
    return float(np.mean([one[degree].get(key, np.nan) for one in replicates.values()]))
