"""Where runs come from: recordings of real machines, and the virtual platform."""
