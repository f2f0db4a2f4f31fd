"""Trackers: rounds, metrics and artefacts of a run for a viewer; off unless asked for by name."""
