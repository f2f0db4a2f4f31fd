"""The adapters without FLARE: the wire, a silo's memory, and a job's share of a run over fake silos."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file as read_arrays

from entente.artifacts import encode_bundle, write_json
from entente.config import Experiment
from entente.deployment import process
from entente.deployment.audit import read, verify
from entente.deployment.job import portable, run_name
from entente.deployment.memory import SiloMemory
from entente.deployment.run_job import run_job
from entente.deployment.settings import parse_federation
from entente.deployment.site import RunState, Site
from entente.deployment.status import status
from entente.deployment.submit import Submission, follow, gather, submit
from entente.deployment.transport import JobTransport
from entente.deployment.wire import decode, encode, size
from entente.detectors.base import GraphShape
from entente.errors import RefusedError, StorageError, UsageError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import KeyTask, Reply, Task, TrainTask, Update, ValidateTask, pack
from entente.federation.records import RoundRecord
from entente.federation.silo import Silo
from entente.graphs.identity import KeyedHash
from entente.graphs.temporal import TemporalGraph
from entente.runs.folder import RunFolder
from entente.runs.steps import Checkpoints
from entente.runtime.assembly import initial_model, make_detector

SILOS = ("east", "north", "west")
ROUNDS = 4
TERMS = {"gathering": 0.2, "retries": 1, "deadline": 5}


# ---- the wire ---------------------------------------------------------------------------------


def _update() -> Update:
    return Update(7, "east", round=2, loss=0.5, edges=3, weights={"w": np.ones((2, 3), np.float32)})


def test_a_message_survives_the_wire() -> None:
    for message in (_update(), KeyTask(3), TrainTask(1, weights={"b": np.arange(4, dtype=np.float32)})):
        back = decode(encode(message), 10_000)
        assert pack(back)[0] == pack(message)[0]
        for name, array in pack(message)[1].items():
            assert pack(back)[1][name].tobytes() == array.tobytes()


def test_a_transposed_array_survives_the_wire() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    back = decode(encode(TrainTask(1, weights={"w": array})), 10_000)
    assert np.array_equal(pack(back)[1]["w"], array)


@given(
    rows=st.sets(st.integers(0, 49), max_size=50),
    value=st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
)
def test_an_update_as_changed_rows_has_the_same_bits(rows: set[int], value: float) -> None:
    base = {"table": np.zeros((50, 4), np.float32), "gate": np.ones(3, np.float32)}
    weights = {name: array.copy() for name, array in base.items()}
    weights["table"][sorted(rows), 1] = value
    update = Update(7, "east", round=2, weights=weights)
    content = encode(update, base)
    back = decode(content, 10_000, base)
    assert isinstance(back, Update)
    assert {n: a.tobytes() for n, a in back.weights.items()} == {n: a.tobytes() for n, a in weights.items()}
    assert size(content) <= size(encode(update)) + 200
    assert not base["table"].any()


def test_an_update_of_few_rows_is_short() -> None:
    base = {"table": np.zeros((10_000, 32), np.float32)}
    weights = {"table": base["table"].copy()}
    weights["table"][:20] = 1
    update = Update(7, "east", round=2, weights=weights)
    assert size(encode(update, base)) < 4_000 < 1_280_000 < size(encode(update))


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([0, 50], np.ones((2, 4), np.float32)),
        ([-1], np.ones((1, 4), np.float32)),
        ([3, 3], np.ones((2, 4), np.float32)),
        ([1], np.ones((2, 4), np.float32)),
        ([1], np.ones((1, 5), np.float32)),
        ([1], np.ones((1, 4), np.float64)),
        ([1], None),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: list[int], values: Any) -> None:
    facts, _ = pack(Update(7, "east", round=2))
    arrays = {"rows:table": np.array(rows, np.int32)} | ({} if values is None else {"values:table": values})
    content = {"bundle": encode_bundle(facts, arrays)}
    with pytest.raises(RefusedError, match="damaged"):
        decode(content, 10_000, {"table": np.zeros((50, 4), np.float32)})
    with pytest.raises(RefusedError, match="table that there is not"):
        decode(content, 10_000)


def test_an_over_sized_message_is_refused_before_it_is_parsed() -> None:
    content = encode(_update())
    with pytest.raises(RefusedError, match="over-sized"):
        decode(content, size(content) - 1)
    with pytest.raises(RefusedError, match="over-sized"):
        decode({"bundle": bytes(5_000_000)}, 4_000_000)
    with pytest.raises(RefusedError, match="header has 5000000 bytes"):
        decode({"bundle": (5_000_000).to_bytes(8, "little") + b"{" * 5_000_000}, 1 << 40)


def _file(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"bundle": 3},
        {"bundle": "text"},
        {"bundle": b""},
        {"bundle": b"\x80\x04pickled"},
        {"bundle": _file(b"[]")},
        {"bundle": _file(b"{")},
        {"bundle": _file(b"[" * 100_000)},
        {"bundle": _file(b'{"__metadata__": {}}')},
        {"bundle": _file(b'{"__metadata__": {"facts": "[1]"}}')},
        {"bundle": _file(b'{"__metadata__": {"facts": 3}}')},
        {"bundle": encode_bundle({"kind": "no-such"}, {})},
        {"bundle": encode_bundle({"kind": "update"}, {})},
    ],
)
def test_what_is_not_a_message_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        decode(content, 1 << 20)


@given(place=st.integers(0, 600), value=st.integers(0, 255), cut=st.integers(0, 40))
def test_no_damage_on_the_way_raises_anything_but_a_refusal(place: int, value: int, cut: int) -> None:
    content = encode(_update())
    blob = bytearray(content["bundle"])
    blob[place % len(blob)] = value
    with contextlib.suppress(RefusedError):
        decode({"bundle": bytes(blob[: len(blob) - cut])}, 1 << 20)


# ---- silos without machines -------------------------------------------------------------------


def _graph(seed: int, secret: bytes = b"s" * 32) -> TemporalGraph:
    rng = np.random.default_rng(seed)
    windows, per = 8, 30
    src = rng.integers(0, 10, windows * per).astype(np.int32)
    dst = ((src + 1 + rng.integers(0, 9, windows * per)) % 10).astype(np.int32)
    key = np.repeat(np.arange(windows), per) * 1000 + src * 10 + dst
    _, first = np.unique(key, return_index=True)
    window = np.repeat(np.arange(windows), per)[first]
    return TemporalGraph(
        rows=KeyedHash(secret, 64).rows([f"host-{seed}-{i}" for i in range(10)]),
        table_size=64,
        start=0,
        width=60_000_000,
        offsets=np.concatenate(([0], np.cumsum(np.bincount(window, minlength=windows)))).astype(np.int64),
        src=src[first],
        dst=dst[first],
        time=window.astype(np.int64) * 60_000_000,
        weight=np.ones(len(first), np.float32),
    )


def _experiment(**federation: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "drive",
            "graph": {"identity": "keyed-hash", "table_size": 64},
            "detector": {"name": "euler", "hidden": 4, "embedding": 3},
            "federation": {"rounds": ROUNDS, **federation},
        }
    )


def _silo(experiment: Experiment, name: str) -> Silo:
    detector = make_detector(experiment, GraphShape(64, 2))
    return Silo(name, detector, _graph(SILOS.index(name)), 10, experiment.seed)


def test_a_silo_asked_to_go_back_farther_than_it_remembers_starts_afresh(tmp_path: Path) -> None:
    """As when the coordinator was restored from a backup: no error, the answer of a silo without a past."""
    experiment = _experiment()
    silo, memory = _silo(experiment, "east"), SiloMemory(tmp_path)
    weights = silo.detector.weights()

    def train(number: int) -> tuple[bool, Update]:
        known = memory.before(number, silo)
        reply = silo.handle(TrainTask(number, round=number, weights=weights))
        memory.after(number, silo)
        assert isinstance(reply, Update)
        return known, reply

    assert all(train(number)[0] for number in range(1, 9))
    near, _ = train(6)
    known, reply = train(2)
    fresh = _silo(experiment, "east").handle(TrainTask(2, round=2, weights=weights))
    assert isinstance(fresh, Update)
    assert (near, known) == (True, False)
    assert {n: a.tobytes() for n, a in reply.weights.items()} == {
        n: a.tobytes() for n, a in fresh.weights.items()
    }
    assert train(3)[0]


class FakeTransport(JobTransport):
    """Silos in this process, each with its memory on disk; `plan` says who is away at which task."""

    def __init__(self, experiment: Experiment, folder: Path, **plan: Any) -> None:
        super().__init__(parse_federation({"silos": SILOS, "terms": TERMS}))
        self.away: dict[str, int] = plan.get("away", {})
        self.back: tuple[str, int] | None = plan.get("back")
        self.fail_at: int | None = plan.get("fail_at")
        self.asked = 0
        self.silos = {name: _silo(experiment, name) for name in SILOS}
        self.memory = {name: SiloMemory(folder / name) for name in SILOS}

    def present(self) -> Collection[str]:
        return [name for name in SILOS if self.asked < self.away.get(name, 10**9)]

    def returned(self) -> Collection[str]:
        return [self.back[0]] if self.back is not None and self.asked >= self.back[1] else []

    def deliver(self, model: ValidateTask, deadline: float) -> dict[str, str]:
        self.delivered = model.weights
        return {}

    def carry(self, task: Task, deadline: float) -> tuple[list[Reply], dict[str, str]]:
        self.asked += 1
        if self.asked == self.fail_at:
            raise KeyboardInterrupt("killed")
        replies, failures = [], {}
        for name in SILOS:
            if name not in self.present():
                failures[name] = "went away"
                continue
            self.memory[name].before(task.id, self.silos[name])
            replies.append(self.silos[name].handle(task))
            self.memory[name].after(task.id, self.silos[name])
        return replies, failures


@pytest.fixture
def site(tmp_path: Path) -> Site:
    federation = parse_federation({"silos": SILOS, "terms": TERMS})
    path = tmp_path / "kit"
    path.mkdir()
    table = {"site": "coordinator", "role": "coordinator", "version": "0"}
    write_json(path / "kit.json", {**table, "federation": federation.model_dump(mode="json")})
    return Site.load(path)


@pytest.fixture
def experiment(site: Site) -> Experiment:
    return portable(site.kit.federation.terms.apply(_experiment()))


def _in_one_process(experiment: Experiment) -> dict[str, Any]:
    layout, weights = initial_model(experiment, GraphShape(64, 2))
    coordinator = Coordinator(
        experiment.federation, experiment.privacy, layout, weights, SILOS, experiment.seed, "euler"
    )
    silos = [_silo(experiment, name) for name in SILOS]
    while (task := coordinator.next_task()) is not None:
        coordinator.conclude([silo.handle(task) for silo in silos])
    return coordinator.best_weights


def _same_as_in_one_process(run: Path, experiment: Experiment) -> bool:
    stored, wanted = read_arrays(run / "model.safetensors"), _in_one_process(experiment)
    return all(stored[name].tobytes() == array.tobytes() for name, array in wanted.items())


def test_a_job_gives_the_model_of_the_plain_loop(site: Site, experiment: Experiment, tmp_path: Path) -> None:
    transport = FakeTransport(experiment, tmp_path)
    assert run_job(site, experiment, "job-1", transport) == "done"
    run = site.run(run_name(experiment))
    assert _same_as_in_one_process(run, experiment)
    stored = read_arrays(run / "model.safetensors")
    assert all(transport.delivered[name].tobytes() == array.tobytes() for name, array in stored.items())
    assert RunState(run).read()["phase"] == "done"
    assert len([r for r in RunFolder(run).rounds() if r.trained]) == ROUNDS
    events = verify(site.audit.path).events
    assert events["run-started"] == events["run-done"] == 1
    assert events["step"] >= ROUNDS + 1
    told = status(site)["runs"][0]
    assert (told["phase"], set(told["contributions"])) == ("done", set(SILOS))


@pytest.mark.parametrize("killed_at", [1, 2, 5, 8])  # key, count, second round, last validation
def test_killed_at_any_task_and_resumed_gives_the_same_bits(
    site: Site, experiment: Experiment, tmp_path: Path, killed_at: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_job(site, experiment, "job-1", FakeTransport(experiment, tmp_path, fail_at=killed_at))
    # New processes at every site: what they know is on disk.
    assert run_job(site, experiment, "job-2", FakeTransport(experiment, tmp_path)) == "done"
    assert _same_as_in_one_process(site.run(run_name(experiment)), experiment)


def test_killed_between_answer_and_checkpoint_gives_the_same_bits(
    site: Site, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silos have trained a round that the coordinator has no record of: they go back with it."""
    saves = 0
    save = Checkpoints.save

    def interrupted(self: Checkpoints, *arguments: Any) -> None:
        nonlocal saves
        saves += 1
        if saves == 6:
            raise KeyboardInterrupt
        save(self, *arguments)

    monkeypatch.setattr(Checkpoints, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_job(site, experiment, "job-1", FakeTransport(experiment, tmp_path))
    assert run_job(site, experiment, "job-2", FakeTransport(experiment, tmp_path)) == "done"
    run = site.run(run_name(experiment))
    assert _same_as_in_one_process(run, experiment)
    rounds = [r.round for r in RunFolder(run).rounds()]
    assert rounds == sorted(set(rounds))


def test_a_returned_silo_ends_the_job_for_a_new_one_and_then_takes_part(
    site: Site, experiment: Experiment, tmp_path: Path
) -> None:
    transport = FakeTransport(experiment, tmp_path, away={"west": 4}, back=("west", 6))
    assert run_job(site, experiment, "job-1", transport) == "rejoin"
    assert RunState(site.run(run_name(experiment))).read()["phase"] == "rejoin"
    assert run_job(site, experiment, "job-2", FakeTransport(experiment, tmp_path)) == "done"
    took = [
        "west" not in record.refused
        for record in RunFolder(site.run(run_name(experiment))).rounds()
        if record.trained
    ]
    assert False in took
    assert took[-1]


def test_below_quorum_stops_with_a_checkpoint_and_says_why(
    site: Site, experiment: Experiment, tmp_path: Path
) -> None:
    transport = FakeTransport(experiment, tmp_path, away={"west": 5, "north": 5})
    assert run_job(site, experiment, "job-1", transport) == "stopped"
    run = site.run(run_name(experiment))
    state = RunState(run).read()
    assert "below quorum: 1 of 3" in state["reason"]
    assert "north, west" in state["reason"]
    assert RunFolder(run).checkpoints().load() is not None
    reasons = [entry["reason"] for _, entry in read(site.audit.path) if entry["event"] == "run-stopped"]
    assert reasons == [state["reason"]]
    assert run_job(site, experiment, "job-2", FakeTransport(experiment, tmp_path)) == "done"


def test_a_full_disk_stops_the_run_cleanly_and_it_resumes(
    site: Site, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entente.artifacts import encode_bundle
    from entente.runs import steps

    encode_state, calls = encode_bundle, 0

    def full(*arguments: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return encode_state(*arguments)

    monkeypatch.setattr(steps, "encode_bundle", full)
    assert run_job(site, experiment, "job-1", FakeTransport(experiment, tmp_path)) == "stopped"
    run = site.run(run_name(experiment))
    assert "No space left" in RunState(run).read()["reason"]
    assert not (run / "reserve").exists()
    assert run_job(site, experiment, "job-2", FakeTransport(experiment, tmp_path)) == "done"
    assert _same_as_in_one_process(run, experiment)


def test_a_failure_nobody_thought_of_ends_the_run_with_its_reason(
    site: Site, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = FakeTransport(experiment, tmp_path)
    monkeypatch.setattr(transport, "ask", lambda *_: 1 / 0)
    assert run_job(site, experiment, "job-1", transport) == "failed"
    assert "ZeroDivisionError" in RunState(site.run(run_name(experiment))).read()["reason"]


def test_a_silos_damaged_memory_is_refused_with_its_place(experiment: Experiment, tmp_path: Path) -> None:
    silo, memory = _silo(experiment, "east"), SiloMemory(tmp_path)
    memory.after(3, silo)
    (tmp_path / "tasks/00000003/state.safetensors").write_bytes(b"rubbish")
    with pytest.raises(StorageError, match=r"00000003/state\.safetensors"):
        SiloMemory(tmp_path).before(4, silo)


# ---- submitting, without a server -------------------------------------------------------------


def test_a_run_is_not_started_twice_and_not_resumed_from_nothing(site: Site, experiment: Experiment) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        submit(site, experiment, resume=True)
    run = RunFolder(site.run(run_name(experiment)))
    run.begin(experiment, resume=False)
    with pytest.raises(UsageError, match="--resume"):
        submit(site, experiment)
    RunState(run.path).write("done")
    with pytest.raises(UsageError, match="complete"):
        submit(site, experiment, resume=True)


def test_submitting_waits_for_silos_only_as_long_as_agreed(site: Site) -> None:
    from entente.errors import FederationError

    with pytest.raises(FederationError, match="0 of 3"):
        gather(site)
    site.write_members({"east": {"session": "a"}, "west": {"session": "b"}})
    gather(site)  # a quorum, once the time is over


def test_an_unreadable_member_list_counts_as_nobody(site: Site) -> None:
    (site.path / "members.json").write_text("{")
    assert site.members() is None
    assert json.loads((site.path / "kit.json").read_text())["site"] == "coordinator"


def test_what_a_site_writes_is_private(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from pathlib import Path; Path('hosts.txt').write_text('dc-1'); Path('runs').mkdir(exist_ok=True)"
    monkeypatch.setattr(process, "command", lambda _: [sys.executable, "-c", code])
    monkeypatch.setattr(process, "coordinator_resources", lambda _: {})
    os.waitpid(process.start(site), 0)
    site.save_settings(site.path, None)
    written = [path for path in site.path.rglob("*") if path.name not in ("kit.json", "local")]
    names = {"hosts.txt", "runs", "console.log", "site.pid", "audit.jsonl", "site.json"}
    assert {path.name for path in written} >= names
    assert [path.name for path in written if path.stat().st_mode & 0o077] == []


# ---- following a run -----------------------------------------------------------------------------


@pytest.mark.parametrize("former", [0, 1])
def test_rounds_that_end_before_the_run_is_followed_are_told(former: int, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for number in (1, 2, 3):
        record = RoundRecord(kind="train", id=number, round=number, attempt=1, validation=None, silos={})
        run.append_round(record)
    RunState(run.path).write("done", job="new")
    told: list[int] = []
    site: Any = None
    follow(site, Submission("new", run, "old", 1.0, former), lambda record: told.append(record.round))
    assert told == [1, 2, 3][former:]
