"""Reports: a page on the accuracy of generated profiles, tables and pictures."""
