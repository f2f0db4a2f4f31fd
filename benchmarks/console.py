"""Queue and search over many alerts: server time of the console's answers, and memory.

    python benchmarks/console.py --alerts 1000000 --incidents 10000

Alerts are made up from a seed: 15,000 hosts in four silos, 3,000 accounts, ports and techniques. Times are of
whole answers through the application (session check, query, template), without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from fastapi.testclient import TestClient

from entente.console.app import create_app
from entente.console.settings import ConsoleSettings
from entente.detection.alerts import Alert
from entente.detection.explanations import TECHNIQUES
from entente.service.database import connect, transaction
from entente.service.service import DATABASE

HOUR = 3_600_000_000
SILOS = ("graz", "lyon", "porto", "headquarters")
QUERIES = {
    "queue": "",
    "queue, page 100": "page=100",
    "queue, all, newest": "status=all&order=newest",
    "a host": "host=10.1.17.4",
    "an account": "user=user77",
    "a network": "net=10.2.0.0/16",
    "a network of few": "net=10.2.7.0/30",
    "a port": "port=445",
    "a technique": "technique=T1021",
    "a silo and a severity": "silo=lyon&severity=high",
    "words": "q=user77",
    "words that everything has": "q=10.",
    "words that nothing has": "q=nothing",
    "a time": "since=2026-09-25&until=2026-09-26",
}


def rows(alerts: int, incidents: int, seed: int) -> object:
    """Rows of the table of alerts."""
    rng = random.Random(seed)
    techniques = sorted(TECHNIQUES)
    start = 1_790_000_000_000_000 // HOUR * HOUR
    template = Alert(0, HOUR, "s", "d", 0.5, 0.4, "medium", "x", ("first contact in 30 days of the logs",))
    document = template.as_dict()
    for number in range(alerts):
        campaign = number % incidents
        silo = SILOS[campaign % 4]
        src, dst = (f"10.{rng.randrange(4)}.{rng.randrange(60)}.{rng.randrange(62)}" for _ in range(2))
        begin = start + (campaign * 37 % 720) * HOUR + number // incidents * 60_000_000
        level = rng.choices((0, 1, 2, 3), (40, 40, 15, 5))[0]
        ident = f"{number:032x}"
        document |= {
            "id": ident, "start": begin, "end": begin + HOUR, "src": src, "dst": dst, "score": rng.random(),
            "severity": ("low", "medium", "high", "critical")[level], "silo": silo,
            "users": [f"user{campaign % 3000}"], "ports": [rng.choice((22, 445, 3389, 5985))],
            "technique": techniques[campaign % len(techniques)], "incident": f"i{campaign:08d}",
        }  # fmt: skip
        yield (
            ident, document["incident"], begin, silo, level, document["score"], src, dst,
            json.dumps(document), begin, "open" if campaign % 5 else "closed",
        )  # fmt: skip


def memory() -> float:
    """Resident megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def ask(browser: TestClient, machine: TestClient, repeats: int) -> None:
    """Time every query, as a page and over REST."""
    for name, query in QUERIES.items():
        for who, asks, path in (("page", browser, "/queue"), ("REST", machine, "/api/v1/incidents")):
            wall, cpu = [], []
            for _ in range(repeats):
                began, busy = time.monotonic(), time.process_time()
                answer = asks.get(f"{path}?{query}")
                wall.append(1000 * (time.monotonic() - began))
                cpu.append(1000 * (time.process_time() - busy))
                assert answer.status_code == 200, answer.text
            said = f"median {statistics.median(wall):6.1f} ms, processor {statistics.median(cpu):6.1f} ms"
            print(f"{name:28} {who}  {said}, largest {max(wall):6.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alerts", type=int, default=1_000_000)
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--passes", type=int, default=5, help="times all queries again, for the memory")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        connection = connect(folder / DATABASE)
        connection.execute("PRAGMA synchronous = OFF")
        with transaction(connection):
            connection.executemany(
                "INSERT INTO alerts "
                "(id, incident, time, silo, severity, score, src, dst, document, raised_at, status) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows(args.alerts, args.incidents, args.seed),
            )
        connection.close()
        app = create_app(ConsoleSettings(data=folder / "console", service=folder))
        gate = app.state.gate
        began, busy = time.monotonic(), time.process_time()
        gate.desk.index.catch_up()
        print(
            f"index built in {time.monotonic() - began:.0f} s, {time.process_time() - busy:.0f} processor s"
        )
        token = gate.sessions.add_token("bench", "operator", 1.0)
        gate.users.add("bench", "analyst", "correct horse battery")
        bearer = {"Authorization": f"Bearer {token}"}
        with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as browser:
            machine = TestClient(app, base_url="http://127.0.0.1", headers=bearer)
            browser.post("/sign-in", data={"name": "bench", "password": "correct horse battery"})
            print(f"memory after the index {memory():.0f} MB")
            ask(browser, machine, args.repeats)
            held = [memory()]
            for _ in range(args.passes):
                for query in QUERIES.values():
                    browser.get(f"/queue?{query}")
                held.append(memory())
        print(f"memory after all queries, and after {args.passes} more times all of them:", *map(round, held))
        print(f"load of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
