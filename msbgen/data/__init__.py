"""Profile datasets, and every kind of file.

=============  ================================================================================
module         content
=============  ================================================================================
schema         names and arrays of a profile dataset; functions that read one
build          profile datasets from arrays, and from blocks of contexts
check          whether a dataset obeys the schema: one sentence for each violation
quality        warnings about valid profiles that look wrongly measured
partial, gaps  runs without some counters, cut runs; lost samples
merge          joining of two batches of runs
energy         energy as a counter; power over time
groups         groups of counters that a core can count at once
store          reading and writing of netCDF files
models         files of fitted models
variables      declaration of the variables of any other dataset
columns        CSV tables with units, or of other tools; tables: of contexts, plans and bounds
toml, journal  TOML files; journals that survive a crash
files          checks of inputs; outputs that appear whole or not at all
shipped        files that ship with the package
units          spellings of units
violations     places of violations, for messages
=============  ================================================================================
"""
