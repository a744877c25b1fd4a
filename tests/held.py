"""Left-out predictions made by hand: nothing is fitted, every score is known."""

import numpy as np

from msbgen.engine.bounds.left_out import LeftOut
from msbgen.engine.generate.centre import Centre
from msbgen.engine.trend.fit import fit_trend


class WithStates:
    """A distribution with other known states."""

    def __init__(self, distribution, states):
        self.distribution, self.states = distribution, states

    def __getattr__(self, name):
        return getattr(self.distribution, name)

    def known_states(self):
        return self.states


def left_out(contexts, durations, *, groups=None, deviation=None, weight=None, state=None):
    """Contexts left out in groups (each alone by default) and predicted to last one second.

    `durations` lists those of each context's runs; `state` (pairs, segments, k) stands for their
    amounts, which are predicted to be one in every segment.
    """
    contexts = np.asarray(contexts, dtype=float)
    n = len(contexts)
    groups = [np.asarray(g) for g in (groups or [[i] for i in range(n)])]
    context = np.concatenate(groups)
    run_context = np.repeat(np.arange(n), [len(d) for d in durations])
    duration = np.concatenate(durations)
    if state is None:
        state = np.concatenate([durations[c] for c in context])[:, None, None]
    segments, k = state.shape[1:]
    groups_of = np.concatenate([np.full(len(g), 1 / len(g)) for g in groups])
    trend = fit_trend(contexts, np.ones((n, segments, k)) / segments, find_caps=False)
    work = np.ones((n, 1))
    centre = Centre(
        clock=1,
        segments=segments,
        bandwidth=1.0,
        total=work,
        slowdown=work,
        time_imputed=np.zeros(n, dtype=bool),
        trend=trend,
        total_trend=fit_trend(contexts, work[..., None], find_caps=False),
        context_residual=np.zeros((n, segments, k)),
        shrinkage=np.ones((n, k)),
    )
    return LeftOut(
        centre=centre,
        context=context,
        lacks=np.concatenate([[np.isin(np.arange(n), g)] * len(g) for g in groups]),
        weight=groups_of / len(groups) if weight is None else np.asarray(weight),
        deviation=np.full(len(context), 0.1)
        if deviation is None
        else np.asarray(deviation, dtype=float),
        predicted=np.ones((len(context), segments, k)) / segments,
        run_context=run_context,
        duration=duration,
        state=state,
    )


def grid_groups(contexts):
    """Each context alone, and each level of a resource that lies between others."""
    contexts = np.asarray(contexts, dtype=float)
    groups = [[i] for i in range(len(contexts))]
    for column in contexts.T:
        groups += [np.flatnonzero(column == level) for level in np.unique(column)[1:-1]]
    return groups
