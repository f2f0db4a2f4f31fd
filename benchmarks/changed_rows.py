"""Bytes of an update sent as changed rows, beside those of the whole model: every silo, round by round.

    python benchmarks/changed_rows.py EVENTS SILOS [--rounds 3] [--table 65536] [--train 86400]

Euler with trained identities. The bits that arrive are compared with those that were sent.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from entente.config import Experiment
from entente.deployment.wire import decode, encode, size
from entente.federation.messages import TrainTask, Update
from entente.runtime.assembly import load_dataset
from entente.runtime.loop import make_coordinator
from entente.runtime.participants import HONEST


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("events", type=Path)
    parser.add_argument("silos", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", type=int, default=0, help="rows of a keyed-hash table; 0 = a row per host")
    parser.add_argument("--train", type=float, default=86400.0)
    options = parser.parse_args()
    graph: dict[str, object] = {"identity": "shared-index"}
    if options.table:
        secret = options.silos.with_suffix(".secret")
        secret.write_text("0" * 64)
        graph = {"identity": "keyed-hash", "table_size": options.table, "secret": secret}
    experiment = Experiment.model_validate(
        {
            "data": {"events": options.events, "silos": options.silos, "train": options.train},
            "graph": graph,
            "detector": {"name": "euler"},
            "federation": {"rounds": options.rounds},
        }
    )
    dataset = load_dataset(experiment)
    silos = {name: HONEST.build(experiment, dataset, name) for name in dataset.silos}
    coordinator = make_coordinator(experiment, dataset.shape, list(silos))
    whole = short = 0
    while (task := coordinator.next_task()) is not None:
        replies = []
        for name, silo in silos.items():
            reply = silo.handle(task)
            if isinstance(task, TrainTask) and isinstance(reply, Update):
                content = encode(reply, task.weights)
                back = decode(content, 1 << 40, task.weights)
                assert isinstance(back, Update)
                assert all(back.weights[n].tobytes() == a.tobytes() for n, a in reply.weights.items())
                full = size(encode(reply))
                whole, short = whole + full, short + size(content)
                hosts = len(dataset.silos[name].hosts)
                line = {
                    "round": task.round,
                    "silo": name,
                    "hosts": hosts,
                    "whole": full,
                    "rows": size(content),
                }
                print(json.dumps(line), flush=True)
            replies.append(reply)
        coordinator.conclude(replies)
    print(json.dumps({"whole": whole, "rows": short, "saved": round(1 - short / whole, 3)}))


if __name__ == "__main__":
    main()
