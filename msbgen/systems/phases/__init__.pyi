"""The public names of ``msbgen.phases`` for type checkers."""

from msbgen.systems.phases.grid import Grid as Grid
from msbgen.systems.phases.grid import Resource as Resource
from msbgen.systems.phases.phases import phase_table as phase_table
from msbgen.systems.phases.phases import read_phases as read_phases
from msbgen.systems.phases.phases import write_phases as write_phases
