"""Makes the base model: the behaviour detector's network, trained on many simulated companies and networks.

    python tools/base_model.py [--companies 60] [--networks 60] [--epochs 12]

Companies differ in size, sites, habits, staff and pace (`varied_company`), networks in everything that
`draw_network` draws; none has a red team. The file it writes is part of the package (`detector.base`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from entente.artifacts import Arrays, encode_bundle, write_bytes
from entente.config import parse_experiment
from entente.detectors.base import GraphShape
from entente.detectors.behaviour.base_model import PATH
from entente.detectors.behaviour.detector import HIDDEN, Behaviour
from entente.detectors.behaviour.features import NAMES
from entente.detectors.behaviour.fitting import Fit, Fitter
from entente.detectors.behaviour.injection.campaigns import Recipe
from entente.detectors.behaviour.options import BehaviourOptions
from entente.detectors.behaviour.training import WARM_UP, Examples, draw_examples
from entente.graphs.identity import make_identity
from entente.graphs.silo import silo_graph
from entente.graphs.snapshots import read_timeline
from entente.graphs.temporal import TemporalGraph
from entente.logs.events import write_events
from entente_lab.simulator import draw_network, simulate, varied_company

WINDOW = 1800.0
REPLICAS = 6
WORK = 0.5
"""What an edge of benign work counts: more than in a silo's own training, since logs differ here."""
MOST = 30_000
"""Examples of one company or network: a large one does not drown the others."""
COMPANIES, NETWORKS = 1000, 5000
"""Seeds of the first ones."""
RATE, SLOWER = 0.003, 0.8
"""Adam's rate in the first epoch, and its factor from one to the next."""


def company(seed: int) -> TemporalGraph:
    """One company's log without any red team, as the graph of one silo."""
    log = simulate(varied_company(seed, red_teams=())).events
    with tempfile.TemporaryDirectory() as scratch:
        write_events(log, Path(scratch) / "events")
        timeline = read_timeline(Path(scratch) / "events", WINDOW, 0.0, context=True)
    settings = parse_experiment({"data": {"events": "none", "train": 1.0}})
    identity = make_identity(settings.graph, timeline.hosts.tolist())
    return silo_graph(timeline, np.ones(len(timeline.hosts), dtype=bool), identity).graph


def examples(seed: int) -> Examples:
    """What one company or network teaches."""
    graph = draw_network(seed) if seed >= NETWORKS else company(seed)
    rng = np.random.default_rng(seed)
    first = round(graph.num_windows * WARM_UP)
    drawn = draw_examples(graph, first, REPLICAS, rng, Recipe(), work=WORK)
    chosen = rng.permutation(len(drawn))[:MOST]
    return Examples(drawn.features[chosen], drawn.positive[chosen], drawn.weight[chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--companies", type=int, default=60)
    parser.add_argument("--networks", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    seeds = [*range(COMPANIES, COMPANIES + options.companies), *range(NETWORKS, NETWORKS + options.networks)]
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(examples, seeds))
    whole = Examples(*(np.concatenate([getattr(p, n) for p in parts]) for n in Examples.__slots__))
    facts = {"features": list(NAMES), "companies": options.companies, "networks": options.networks}
    weights, loss = fitted(whole, options.epochs)
    write_bytes(options.out, encode_bundle(facts, weights))
    sys.stdout.write(f"{len(whole):,} examples of {len(parts)} logs, loss {loss:.4f}\n")


def fitted(whole: Examples, epochs: int) -> tuple[Arrays, float]:
    start = Behaviour(BehaviourOptions(base=False), GraphShape(1), 0)
    rng, fitter, loss = np.random.default_rng(0), Fitter(start.weights(), {}), 0.0
    for epoch in range(epochs):
        plan = Fit(1, start.config.batch, RATE * SLOWER**epoch, hidden=HIDDEN)
        loss = fitter.fit(whole, plan, rng)
    return fitter.weights(), loss


if __name__ == "__main__":
    main()
