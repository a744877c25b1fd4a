"""Predictors of time and energy of task graphs, with intervals."""
