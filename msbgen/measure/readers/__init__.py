"""What tools recorded: one reader a format, and counts on equal intervals."""
