"""The public names of ``msbgen.learn`` for type checkers."""

from msbgen.systems.learn.boosting import BoostingSettings as BoostingSettings
from msbgen.systems.learn.randomised import TreesSettings as TreesSettings
