"""Whether a change of a program made it slower: by how much, in which contexts, and where.

``compare_profiles(old, new) -> Comparison``: the ratio of execution times over all contexts and in
each (:mod:`~msbgen.answers.compare.ratio`), the alignment of both versions' work
(:mod:`~msbgen.answers.compare.alignment`), and the stretches of it that changed
(:mod:`~msbgen.answers.compare.stretches`).  ``plan_comparison`` plans its runs
(:mod:`~msbgen.answers.compare.planning`).
"""
