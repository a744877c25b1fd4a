"""The public names of ``msbgen.realtime`` for type checkers."""

from msbgen.realtime.allocate import Allocator as Allocator
from msbgen.realtime.clocks import reference_slack as reference_slack
from msbgen.realtime.clocks import simulated_slack as simulated_slack
from msbgen.realtime.edf import simulate_edf as simulate_edf
from msbgen.realtime.simulate import simulate_task_set as simulate_task_set
from msbgen.realtime.simulate import timeline as timeline
from msbgen.realtime.tasksets import Task as Task
from msbgen.realtime.tasksets import TaskSet as TaskSet
from msbgen.realtime.tasksets import draw_task_set as draw_task_set
from msbgen.realtime.tasksets import read_task_set as read_task_set
from msbgen.realtime.tasksets import reference_wcet as reference_wcet
from msbgen.realtime.truth import Truth as Truth
