"""Everything of one task, and of many."""

# Of a report, alone or in a batch, where nobody says otherwise: the share of runs in a new context
# that may take longer than its bound; contexts of the plan; parts that the measured contexts are
# left out in.
MISCOVERAGE, BUDGET, PARTS = 0.05, 12, 4
