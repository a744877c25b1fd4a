"""Generative profiles for every resource context from measurements in a few."""
