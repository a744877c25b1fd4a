"""What is asked of a fit: plans, scores, comparisons and choices."""
