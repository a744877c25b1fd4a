"""Plans, scores, comparisons and choices, from a fitted model."""
