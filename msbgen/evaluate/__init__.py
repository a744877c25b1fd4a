"""How good generated profiles are: metrics, baselines, scores."""
