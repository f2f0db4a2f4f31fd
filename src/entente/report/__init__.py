"""One self-contained HTML page about a run."""

from entente.report.data import AttackEdge, Points, ReportData
from entente.report.page import render
from entente.report.run import build

__all__ = ["AttackEdge", "Points", "ReportData", "build", "render"]
