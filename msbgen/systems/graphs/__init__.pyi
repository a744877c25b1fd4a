"""The public names of ``msbgen.graphs`` for type checkers."""

from msbgen.systems.graphs import agents as agents
from msbgen.systems.graphs import simulator as simulator
from msbgen.systems.graphs.dataset import make as make
from msbgen.systems.graphs.dataset import with_profiles as with_profiles
from msbgen.systems.graphs.dataset import with_times as with_times
from msbgen.systems.graphs.devices import Device as Device
from msbgen.systems.graphs.devices import device_contexts as device_contexts
from msbgen.systems.graphs.devices import read_device as read_device
from msbgen.systems.graphs.devices import shipped_device as shipped_device
from msbgen.systems.graphs.families.catalogue import family_graph as family_graph
from msbgen.systems.graphs.predictor.network_predictor import NetworkPredictor as NetworkPredictor
from msbgen.systems.graphs.predictor.network_predictor import load_predictor as load_predictor
from msbgen.systems.graphs.predictor.predictor import GraphPredictor as GraphPredictor
from msbgen.systems.graphs.readers import read as read
from msbgen.systems.graphs.runs import join_runs as join_runs
from msbgen.systems.graphs.runs import make_runs as make_runs
from msbgen.systems.graphs.runs import read_runs as read_runs
from msbgen.systems.graphs.runs import write_runs as write_runs
from msbgen.systems.graphs.writers import write as write
