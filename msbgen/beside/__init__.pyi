"""The public names of ``msbgen.beside`` for type checkers."""

from msbgen.beside.columns import Columns as Columns
from msbgen.beside.course import Course as Course
from msbgen.beside.course import LawSettings as LawSettings
from msbgen.beside.course import course_profiles as course_profiles
from msbgen.beside.course import duration_bounds as duration_bounds
from msbgen.beside.course import play as play
from msbgen.beside.harm import Harm as Harm
from msbgen.beside.harm import find_harm as find_harm
from msbgen.beside.placement import Placement as Placement
from msbgen.beside.placement import best_partition as best_partition
from msbgen.beside.placement import choose_placement as choose_placement
from msbgen.beside.table import ProgramTable as ProgramTable
from msbgen.beside.table import program_table as program_table
