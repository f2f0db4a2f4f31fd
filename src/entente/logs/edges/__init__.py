"""Edges of windows, computed by the engine that holds the logs, and kept as Parquet."""
