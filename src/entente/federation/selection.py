"""Which round's model is the best, and when to stop looking for a better one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from entente.federation.messages import Update, ValidateReply
from entente.federation.records import RoundScore


def summarise(replies: Sequence[Update | ValidateReply | tuple[float, float, int]]) -> RoundScore | None:
    """AP and AUC of one global model over the silos that have validation edges; None if none has.

    These are the silos' own words. From three silos on the median is taken, each silo counting once:
    a minority that lies can then move the result no further than honest silos are apart, while a mean
    weighted by claimed edges would follow whoever claims most. Below three it is that weighted mean.
    """
    known = [r if isinstance(r, tuple) else (r.ap, r.auc, r.edges) for r in replies]
    known = [item for item in known if item[2] > 0]
    if not known:
        return None
    if len(known) >= 3:
        ap, auc = (statistics.median(item[at] for item in known) for at in (0, 1))
    else:
        edges = sum(item[2] for item in known)
        ap, auc = (sum(item[at] * (item[2] / edges) for item in known) for at in (0, 1))
    return RoundScore(ap=float(ap), auc=float(auc), silos=len(known))


class Selection:
    """Remembers the best score (AP + AUC) and after how many rounds it was reached."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best_round = 0
        self.best_score: float | None = None

    def offer(self, rounds: int, validation: RoundScore | None) -> bool:
        """Whether the model after `rounds` rounds is the best so far; without any validation the last is."""
        if validation is None:
            better = self.best_score is None
        else:
            score = validation.ap + validation.auc
            better = self.best_score is None or score > self.best_score
            self.best_score = score if better else self.best_score
        if better:
            self.best_round = rounds
        return better

    def exhausted(self, rounds: int) -> bool:
        return self.best_score is not None and rounds - self.best_round >= self.patience
