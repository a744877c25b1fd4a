"""Programs that share the cache and memory bandwidth, from what is known of each alone."""
