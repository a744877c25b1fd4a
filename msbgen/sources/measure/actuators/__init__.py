"""Actuators, which limit a program's resources: the interface, and one file per mechanism."""
