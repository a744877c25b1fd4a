"""Plans of the contexts to measure next."""
