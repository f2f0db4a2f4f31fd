"""What a check is: a claim about a plug-in, and a function that raises where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Subject = TypeVar("Subject")


class BrokenClaimError(Exception):
    """Raised by a check whose claim does not hold."""


@dataclass(frozen=True, slots=True)
class Check:
    """`run` takes the subject of the check: a detector's case, a round, a format or a sink."""

    claim: str
    run: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one check; `problem` is None where the claim holds."""

    claim: str
    problem: str | None


def claims(
    checks: list[Check], claim: str
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Adds the decorated function to `checks`."""

    def add(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        checks.append(Check(claim, run))
        return run

    return add


def require(holds: object, problem: str) -> None:
    """BrokenClaimError with `problem` unless it holds."""
    if not holds:
        raise BrokenClaimError(problem)


def judge(checks: Iterable[Check], subject: object) -> list[Verdict]:
    """Every check on one subject; an exception of the plug-in's own is a broken claim too."""
    verdicts = []
    for check in checks:
        problem = None
        try:
            check.run(subject)
        except BrokenClaimError as error:
            problem = str(error)
        except Exception as error:  # the plug-in is somebody else's code
            problem = f"{type(error).__name__}: {error}"
        verdicts.append(Verdict(check.claim, problem))
    return verdicts
