"""How long a task graph takes in every context of a platform, with which energy, and how sure."""
