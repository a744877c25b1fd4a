"""Programs that share the cache and memory bandwidth, from what is known of each alone."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "course": ("Course", "LawSettings", "course_profiles", "duration_bounds", "play"),
        "harm": ("Harm", "find_harm"),
        "placement": ("Placement", "best_partition", "choose_placement"),
        "columns": ("Columns",),
        "table": ("ProgramTable", "program_table"),
    },
)
