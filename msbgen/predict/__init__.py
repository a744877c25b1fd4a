"""Predictors of numbers, not of profiles: runtimes that were never measured."""
