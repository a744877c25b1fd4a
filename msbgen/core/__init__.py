"""Contexts, quantiles, durations, errors, the machine: what every wing stands on; imports none."""
