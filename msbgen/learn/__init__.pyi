"""The public names of ``msbgen.learn`` for type checkers."""

from msbgen.learn.boosting import BoostingSettings as BoostingSettings
from msbgen.learn.randomised import TreesSettings as TreesSettings
