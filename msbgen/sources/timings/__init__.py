"""Durations without a course in time: tables of people, and results of benchmark tools."""
