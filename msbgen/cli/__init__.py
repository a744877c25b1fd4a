"""The ``msbgen`` command: its entry, what the verbs share, and one file a verb."""
