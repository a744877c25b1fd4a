"""Everything of one task, and of many."""
