"""What a profile dataset is, and the files that hold one."""
