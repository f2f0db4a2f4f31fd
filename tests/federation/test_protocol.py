"""The two halves of the protocol, driven by a loop."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def test_a_run_ends_with_a_trained_best_model(federated: Any) -> None:
    run = federated().run()
    assert run.coordinator.stopped == "all 4 rounds are done"
    assert [record.round for record in run.records] == [1, 2, 3, 4, 5]
    assert [record.kind for record in run.records] == ["train"] * 4 + ["validate"]
    scores = [record.validation.ap for record in run.records]
    assert run.coordinator.best_round == int(np.argmax(scores))
    assert scores[-1] > scores[0]
    json.dumps([record.to_json() for record in run.records], allow_nan=False)


def test_the_bootstrap_learns_the_total_and_not_the_counts(federated: Any) -> None:
    run = federated(silos=4)
    seen: list[int] = []

    def watch(task: Any, replies: Any) -> Any:
        if task.kind == "count":
            seen.extend(reply.count for reply in replies)
        return replies

    run.run(watch)
    assert run.coordinator.bootstrap.hosts == 3 + 4 + 5 + 6
    assert min(seen) > 10**6
    assert sum(seen) % 2**64 == 18
