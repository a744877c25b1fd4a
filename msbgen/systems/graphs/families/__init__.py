"""Families of task graphs to draw from: by shape, by recursion."""
