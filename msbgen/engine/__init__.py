"""What is fitted: the bridge, the trend, faults of measurements, generated profiles, bounds."""
