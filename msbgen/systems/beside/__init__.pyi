"""The public names of ``msbgen.beside`` for type checkers."""

from msbgen.systems.beside.columns import Columns as Columns
from msbgen.systems.beside.course import Course as Course
from msbgen.systems.beside.course import LawSettings as LawSettings
from msbgen.systems.beside.course import course_profiles as course_profiles
from msbgen.systems.beside.course import duration_bounds as duration_bounds
from msbgen.systems.beside.course import play as play
from msbgen.systems.beside.harm import Harm as Harm
from msbgen.systems.beside.harm import find_harm as find_harm
from msbgen.systems.beside.placement import Placement as Placement
from msbgen.systems.beside.placement import best_partition as best_partition
from msbgen.systems.beside.placement import choose_placement as choose_placement
from msbgen.systems.beside.table import ProgramTable as ProgramTable
from msbgen.systems.beside.table import program_table as program_table
