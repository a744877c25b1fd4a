"""Whether a change of a program made it slower: by how much, in which contexts, and where.

``compare_profiles(old, new) -> Comparison``: the ratio of execution times over all contexts and in
each (:mod:`~msbgen.compare.ratio`), the alignment of both versions' work
(:mod:`~msbgen.compare.alignment`), and the stretches of it that changed
(:mod:`~msbgen.compare.stretches`).  ``plan_comparison`` plans its runs
(:mod:`~msbgen.compare.planning`).
"""
