"""Times on every machine from one run on one of them."""
