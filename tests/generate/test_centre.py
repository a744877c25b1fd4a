"""Where the profiles of a context lie."""
