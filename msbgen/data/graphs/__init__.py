"""Task graphs: what one is, the files that hold one, families to draw from, and runs of them."""
