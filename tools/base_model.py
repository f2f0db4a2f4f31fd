"""Makes the base model: the behaviour detector's network, trained on many simulated companies.

    python tools/base_model.py [--companies 40] [--first-seed 1000] [--epochs 12]

Companies differ in size, sites, habits, staff and pace (`varied_company`); none has a red team. The file it
writes is part of the package: `detector.start = "base"`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from entente.artifacts import encode_bundle, write_bytes
from entente.config import parse_experiment
from entente.detectors.base import GraphShape
from entente.detectors.behaviour.base_model import PATH
from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.features import NAMES
from entente.detectors.behaviour.injection.campaigns import Recipe
from entente.detectors.behaviour.options import BehaviourOptions
from entente.detectors.behaviour.training import WARM_UP, Examples, draw_examples
from entente.graphs.identity import make_identity
from entente.graphs.silo import silo_graph
from entente.graphs.snapshots import read_timeline
from entente.graphs.temporal import TemporalGraph
from entente.logs.events import write_events
from entente_lab.simulator import simulate, varied_company

WINDOW = 1800.0
REPLICAS = 6


def company(seed: int) -> TemporalGraph:
    """One company's log without any red team, as the graph of one silo."""
    log = simulate(varied_company(seed, red_teams=())).events
    with tempfile.TemporaryDirectory() as scratch:
        write_events(log, Path(scratch) / "events")
        timeline = read_timeline(Path(scratch) / "events", WINDOW, 0.0, context=True)
    settings = parse_experiment({"data": {"events": "none", "train": 1.0}})
    identity = make_identity(settings.graph, timeline.hosts.tolist())
    return silo_graph(timeline, np.ones(len(timeline.hosts), dtype=bool), identity).graph


def examples(seed: int, most: int) -> Examples:
    """What one company teaches, `most` examples at most: a large one does not drown the others."""
    graph, rng = company(seed), np.random.default_rng(seed)
    drawn = draw_examples(graph, round(graph.num_windows * WARM_UP), REPLICAS, rng, Recipe())
    chosen = rng.permutation(len(drawn))[:most]
    return Examples(drawn.features[chosen], drawn.positive[chosen], drawn.weight[chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--companies", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--most", type=int, default=30_000, help="examples of one company")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.companies)
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(partial(examples, most=options.most), seeds))
    whole = Examples(*(np.concatenate([getattr(p, n) for p in parts]) for n in Examples.__slots__))
    detector = Behaviour(BehaviourOptions(), GraphShape(1), 0)
    loss = detector.fit(whole, options.epochs, np.random.default_rng(0))
    facts = {"features": list(NAMES), "companies": len(parts), "first_seed": seeds[0]}
    write_bytes(PATH, encode_bundle(facts, detector.weights()))
    sys.stdout.write(f"{len(whole):,} examples of {len(parts)} companies, loss {loss:.4f}\n")


if __name__ == "__main__":
    main()
