"""The detector that runs for months: sources, windows, alerts, outputs."""
