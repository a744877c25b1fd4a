"""The ``msbgen`` command."""
