"""Every error a user can meet: what happened, where, and what to do about it.

Each class has its own exit code, which the command line returns and the docs list.
"""

from __future__ import annotations

from pathlib import Path

from entente.text import visible


class EntenteError(Exception):
    """Root of all errors that are the user's to see; raised itself only for internal limits.

    >>> try:
    ...     entente.load_run("nowhere")
    ... except entente.EntenteError as error:
    ...     print(error, error.exit_code, sep="\\n")
    nowhere: holds no finished run
      Name a folder that `entente train` has finished.
    2
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        line: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.what = what
        self.where = str(where) if where is not None else None
        self.line = line
        self.remedy = remedy
        # Names and pieces of logs occur in messages, and messages go to terminals.
        shown = visible(what, keep="\n")
        name = visible(self.where)
        place = name if line is None else f"{name}:{line}"
        text = shown if self.where is None else f"{place}: {shown}"
        advice = "" if remedy is None else "\n  " + visible(remedy, keep="\n")
        super().__init__(text + advice)


class UsageError(EntenteError):
    """Raised when options contradict each other or name something that does not exist."""

    exit_code = 2


class ConfigError(EntenteError):
    """Raised when an experiment or federation file does not validate."""

    exit_code = 3


class LogError(EntenteError):
    """Raised when logs cannot be read: missing, damaged, of another format, or without any event."""

    exit_code = 4


class GraphError(EntenteError):
    """Raised when events cannot become the graph that was asked for."""

    exit_code = 5


class DetectorError(EntenteError):
    """Raised when a detector is given weights, state or a graph that do not fit it."""

    exit_code = 6


class FederationError(EntenteError):
    """Raised when a run cannot go on, for instance below quorum; a checkpoint is left behind."""

    exit_code = 7


class RefusedError(FederationError):
    """Raised when a message of a silo is refused; the round goes on without it."""

    exit_code = 8


class StorageError(EntenteError):
    """Raised when something cannot be written or a stored file is damaged."""

    exit_code = 9


class DeploymentError(EntenteError):
    """Raised when a real federation cannot be set up, reached or verified."""

    exit_code = 10


class MissingExtraError(EntenteError):
    """Raised when an optional dependency is needed; the remedy names the extra to install."""

    exit_code = 11


class PluginError(EntenteError):
    """Raised when an installed plug-in cannot be imported or does not keep its contract."""

    exit_code = 12


class Interrupted(EntenteError):  # noqa: N818 - not a failure, the user asked for it
    """Raised after Ctrl-C, once everything worth keeping has been written."""

    exit_code = 130
