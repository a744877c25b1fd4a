"""Profiles in the formats of other tools: traces for eyes, metrics for dashboards."""
