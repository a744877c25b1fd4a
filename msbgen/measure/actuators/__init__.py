"""What gives resources to a program: the interface, the kernel's files, one file a mechanism."""
