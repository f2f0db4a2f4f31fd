"""Entente: cross-silo intrusion detection on network log graphs."""

__version__ = "0.1.0"
