"""Fit, generate, bound, score, plan and report one task or many."""

# Defaults of a report: the probability that a new run exceeds its bound; contexts of the plan;
# folds of measured contexts.
MISCOVERAGE, BUDGET, PARTS = 0.05, 12, 4
