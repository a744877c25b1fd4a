"""Laws of profiles, fitted to measurements, that generate the profiles of any context."""
