"""Neighbouring systems, each with its dataset, predictor, simulator and evaluation."""
