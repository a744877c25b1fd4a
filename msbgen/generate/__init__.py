"""Laws of profiles: fitted to measurements, asked for any context."""
