"""Contexts for graphs that run one after another: search, rules, and agents that learn."""
