"""The path-structured Schrödinger bridge on arrays."""
