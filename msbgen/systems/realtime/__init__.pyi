"""The public names of ``msbgen.realtime`` for type checkers."""

from msbgen.systems.realtime.allocate import Allocator as Allocator
from msbgen.systems.realtime.clocks import reference_slack as reference_slack
from msbgen.systems.realtime.clocks import simulated_slack as simulated_slack
from msbgen.systems.realtime.edf import simulate_edf as simulate_edf
from msbgen.systems.realtime.simulate import simulate_task_set as simulate_task_set
from msbgen.systems.realtime.simulate import timeline as timeline
from msbgen.systems.realtime.tasksets import Task as Task
from msbgen.systems.realtime.tasksets import TaskSet as TaskSet
from msbgen.systems.realtime.tasksets import draw_task_set as draw_task_set
from msbgen.systems.realtime.tasksets import read_task_set as read_task_set
from msbgen.systems.realtime.tasksets import reference_wcet as reference_wcet
from msbgen.systems.realtime.truth import Truth as Truth
