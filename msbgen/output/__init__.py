"""What leaves the package: reports, exports and batches."""
