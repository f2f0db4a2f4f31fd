"""A provisioned federation on loopback: the same bits as in one process, no code, no strangers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from safetensors.numpy import load_file as read_arrays

from entente import __version__
from entente.config import Experiment, load_experiment
from entente.deployment import policy, process
from entente.deployment.audit import read, verify, witness
from entente.deployment.job import APP, portable, run_name, write_job
from entente.deployment.process import pid_of
from entente.deployment.provision import SECRET, provision
from entente.deployment.session import session
from entente.deployment.settings import parse_federation
from entente.deployment.site import RunState, Site
from entente.deployment.submit import prepare
from entente.federation.exchange.keys import ExchangeKey
from entente.federation.exchange.notes import Note
from entente.logs.events import write_events
from entente.runs.folder import RunFolder
from entente.runs.mailbox import Mailbox

pytestmark = pytest.mark.slow

SILOS = ("east", "north", "west")
TABLE = "encoder.first.map.weight"


def test_three_silos_give_the_model_of_the_in_process_loop_bit_for_bit(lab: Any) -> None:
    experiment = lab.write("same", rounds=4)
    done = lab.submit(experiment, "--json", "--track", "tensorboard", "--track", "mlflow")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["phase"] == "done"
    assert lab.same(lab.run(experiment), lab.in_one_process(experiment))


def test_the_rounds_of_a_federation_can_be_tracked(lab: Any) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(
        str(lab.run(lab.root / "same.toml").path / "tracking" / "tensorboard")
    )
    found.Reload()
    assert [point.step for point in found.Scalars("loss")] == [1, 2, 3, 4]
    assert {f"silo/{silo}/r" for silo in SILOS} <= set(found.Tags()["scalars"])


def test_mlflow_has_the_rounds_and_the_model_of_a_federation(lab: Any) -> None:
    folder = lab.run(lab.root / "same.toml").path / "tracking" / "mlflow"
    with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as database:
        steps = database.execute("select step from metrics where key = 'loss' order by step").fetchall()
        names = {row[0] for row in database.execute("select distinct key from metrics")}
        status = database.execute("select status from runs").fetchall()
    assert steps == [(1,), (2,), (3,), (4,)]
    assert {f"silo/{silo}/r" for silo in SILOS} <= names
    assert status == [("FINISHED",)]
    assert {path.name for path in (folder / "artefacts").rglob("model.*")} == {
        "model.safetensors",
        "model.json",
    }


def test_nobody_else_can_read_what_a_site_has_written(lab: Any) -> None:
    written = [path for kit in lab.kits.values() for path in kit.rglob("*") if not path.is_symlink()]
    assert [str(path) for path in written if path.exists() and path.stat().st_mode & 0o077] == []


def test_every_silo_has_the_model_with_a_threshold_of_its_own_and_can_detect(lab: Any) -> None:
    central = lab.run(lab.root / "same.toml")
    for silo in SILOS:
        run = RunFolder(lab.kits[silo] / "runs" / central.path.name)
        models, card = run.read_model()
        assert lab.same(central, models[""])
        assert list(card.thresholds) == [silo]
        assert set(run.metrics().per_silo) == {silo}
    later = pa.table({"time": [2_500_000_000], "src": ["west-00"], "dst": ["newcomer"]})
    write_events(later, lab.root / "later")
    run_folder = lab.kits["west"] / "runs" / central.path.name
    out = lab.root / "alerts.jsonl"
    done = lab.entente("detect", "--run", run_folder, "--events", lab.root / "later", "--out", out)
    assert done.returncode == 0, done.stderr


def test_identity_rows_that_stay_at_home_are_the_same_bits_and_never_reach_the_coordinator(lab: Any) -> None:
    experiment = lab.write("at-home", rounds=3, identities="local")
    done = lab.submit(experiment, "--json")
    assert done.returncode == 0, done.stderr
    central, wanted = lab.run(experiment), lab.models_in_one_process(experiment)
    assert lab.same(central, wanted[""])
    arrays = [read_arrays(file) for file in central.path.rglob("*.safetensors")]
    assert arrays
    assert not any(TABLE in name for found in arrays for name in found)
    for silo in SILOS:
        run = RunFolder(lab.kits[silo] / "runs" / central.path.name)
        models, _ = run.read_model()
        assert set(models) == {"", silo}
        assert models[silo][TABLE].tobytes() == wanted[silo][TABLE].tobytes()
    later = pa.table({"time": [2_500_000_000], "src": ["west-00"], "dst": ["east-00"]})
    write_events(later, lab.root / "at-home-later")
    run_folder = lab.kits["west"] / "runs" / central.path.name
    words = ("--events", lab.root / "at-home-later", "--out", lab.root / "at-home.jsonl")
    done = lab.entente("detect", "--run", run_folder, *words)
    assert done.returncode == 0, done.stderr


def test_packets_of_the_exchange_travel_over_flare(lab: Any) -> None:
    """The mailboxes are the silos' own; nothing but sealed packets reaches the coordinator."""
    key = ExchangeKey((lab.kits["east"] / "local" / SECRET).read_bytes().strip())
    for silo in SILOS:
        notes = [Note(key.pseudonym(f"{silo}-00", 2_400_000_000), 3)]
        Mailbox(lab.kits[silo] / "exchange").post([key.seal(silo, 2_400_000_000, 60_000_000, notes)])
    done = lab.entente("federation", "relay", lab.kits["coordinator"], "--pause", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    for silo in SILOS:
        arrived = Mailbox(lab.kits[silo] / "exchange").arrived()
        assert [packet.silo for packet in arrived] == [other for other in SILOS if other != silo]
        assert all(key.open(packet) for packet in arrived)
    last = [entry for _, entry in read(lab.coordinator.audit.path) if entry["event"] == "exchange"][-1]
    assert last["packets"] == dict.fromkeys(SILOS, 1)


def test_status_and_audit_tell_what_happened(lab: Any) -> None:
    told = json.loads(lab.entente("federation", "status", lab.kits["coordinator"], "--json").stdout)
    assert told["running"]
    assert told["silos"] == dict.fromkeys(SILOS, "in")
    ended = {run["run"]: (run["phase"], run["round"], set(run["contributions"])) for run in told["runs"]}
    for name, rounds in (("same", 4), ("at-home", 3)):
        assert ended[lab.run(lab.root / f"{name}.toml").path.name] == ("done", rounds, set(SILOS))
    central = lab.coordinator.audit.path
    assert verify(central).events["silo-joined"] >= 3
    versions = {(e["silo"], e["version"]) for _, e in read(central) if e["event"] == "silo-version"}
    assert versions == {(silo, __version__) for silo in SILOS}
    for silo in SILOS:
        own = Site.load(lab.kits[silo]).audit.path
        assert verify(own).events["task"] >= 9
        assert witness(own, central) > 0
    checked = lab.entente("federation", "check", lab.kits["coordinator"])
    assert checked.returncode == 0, checked.stdout


def test_nothing_listens_beyond_loopback(lab: Any) -> None:
    pids = {pid_of(Site.load(kit)) for kit in lab.kits.values()}
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(handle))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                assert words[1].startswith("0100007F"), line


SIMULATED = """
import os
from pathlib import Path
from entente.deployment.site import Site

def of_process():
    name = Path.cwd().name
    return Site.load(Path(os.environ["LAB_KITS"]) / ("coordinator" if name == "server" else name))

Site.of_process = staticmethod(of_process)
"""


def test_flares_simulator_gives_the_same_bits_too(lab: Any, tmp_path: Path) -> None:
    """The simulator has no kits; where its sites find theirs is put into place from outside."""
    experiment = lab.write("simulated", rounds=3)
    prepared = prepare(lab.coordinator, load_experiment(experiment))
    job = write_job(tmp_path / "job", prepared, lab.federation)
    kits = tmp_path / "kits"
    for name, kit in lab.kits.items():
        for folder in ("local", "startup"):
            (kits / name / folder).mkdir(parents=True)
        certificates = ("startup/rootCA.pem", "startup/client.crt", "startup/client.key")
        for file in ("kit.json", "local/site.json", f"local/{SECRET}", *certificates):
            if (kit / file).exists():
                shutil.copy(kit / file, kits / name / file)
    (tmp_path / "simulated").mkdir()
    (tmp_path / "simulated" / "sitecustomize.py").write_text(SIMULATED)
    workspace = tmp_path / "workspace"
    (workspace / "local").mkdir(parents=True)
    classes = {"format_version": 2, "class_allow_list": [policy.CONTROLLER, policy.EXECUTOR]}
    (workspace / "local" / "resources.json").write_text(json.dumps(classes))
    code = (
        "import sys\n"
        "from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner\n"
        "names = ','.join(sys.argv[3:])\n"
        "sys.exit(SimulatorRunner(sys.argv[1], sys.argv[2], clients=names, threads=3).run())"
    )
    environment = {**os.environ, **policy.ENVIRONMENT, "LAB_KITS": str(kits)}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(tmp_path / "simulated"), environment.get("PYTHONPATH", "")))
    )
    command = [sys.executable, "-c", code, str(job), str(workspace), *SILOS]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, start_new_session=True
    )
    run = RunFolder(kits / "coordinator" / "runs" / lab.run(experiment).path.name)
    assert (run.path / "model.safetensors").exists(), done.stdout[-3000:]
    assert lab.same(run, lab.in_one_process(experiment))


# ---- no code travels --------------------------------------------------------------------------

CLIENT_API = {
    "path": "nvflare.app_common.executors.client_api_launcher_executor.ClientAPILauncherExecutor",
    "args": {"pipe_id": "pipe"},
}
FOREIGN = {
    "path": "nvflare.app_common.executors.statistics.statistics_executor.StatisticsExecutor",
    "args": {},
}


def _custom(application: Path) -> None:
    (application / "custom").mkdir()
    (application / "custom" / "evil.py").write_text("import os\n")


def _stray(application: Path) -> None:
    (application / "config" / "evil.py").write_text("import os\n")


def _class(executor: dict[str, Any]) -> Callable[[Path], None]:
    def tamper(application: Path) -> None:
        path = application / "config" / "config_fed_client.json"
        table = json.loads(path.read_text())
        table["executors"][0]["executor"] = executor
        path.write_text(json.dumps(table))

    return tamper


def _elsewhere(application: Path) -> None:
    path = application / "config" / "experiment.toml"
    path.write_text('name = "tampered"\n[data]\nevents = "/var/log"\n')


def _foreign_secret(application: Path) -> None:
    path = application / "config" / "experiment.toml"
    path.write_text('name = "tampered"\n[graph]\nsecret = "../../startup/client.key"\n')


def _meta(**change: Any) -> Callable[[Path], None]:
    def tamper(application: Path) -> None:
        path = application.parent / "meta.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    return tamper


def _climbing(application: Path) -> None:
    """The same content, but as an application whose name leads out of the job's folder."""
    _meta(deploy_map={"../../runs": ["@ALL"]})(application)


TAMPERED = {
    "events elsewhere": _elsewhere,
    "a secret elsewhere": _foreign_secret,
    "an application that climbs out of its folder": _climbing,
    "custom code": _custom,
    "a stray module": _stray,
    "a class that is not ours": _class(FOREIGN),
    "the Client API": _class(CLIENT_API),
}


@pytest.fixture(scope="module")
def refusals(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each tampered job, submitted by the real operator."""
    outcome = {}
    with session(lab.coordinator) as flare:
        for name, tamper in TAMPERED.items():
            folder = tmp_path_factory.mktemp("job")
            experiment = portable(lab.federation.terms.apply(Experiment(name="tampered")))
            job = write_job(folder, experiment, lab.federation)
            tamper(job / APP)
            try:
                identifier = flare.submit_job(str(job))
            except Exception as error:
                outcome[name] = f"refused at once: {error}"
                continue
            lab.wait(
                lambda i=identifier: str(flare.get_job_meta(i)["status"]).startswith("FINISHED"),
                90,
                f"the end of a job with {name}",
            )
            meta = flare.get_job_meta(identifier)
            outcome[name] = f"{meta['status']}: {meta.get('job_deploy_detail')}"
    return outcome


@pytest.mark.parametrize("name", TAMPERED)
def test_a_job_with_code_is_refused(refusals: dict[str, str], lab: Any, name: str) -> None:
    said = refusals[name]
    assert said.startswith(("refused at once", "FINISHED:FAILED_TO_RUN")), said
    assert any(word in said.lower() for word in ("not authorized", "refused by", "invalid")), said
    assert not RunState(lab.coordinator.run("tampered")).read()


def test_a_job_whose_name_climbs_out_of_its_folder_stays_inside(lab: Any) -> None:
    """The run's folder is named by this package; what the job or the experiment is called cannot move it."""
    prepared = prepare(lab.coordinator, Experiment(name="../../../startup"))
    assert lab.coordinator.run(run_name(prepared)).parent == lab.coordinator.path / "runs"


def test_a_silo_tells_the_operator_nothing_about_its_processes_peers_and_messages(lab: Any) -> None:
    commands = ("process_info", "peers", "msg_stats", "conns", "show_config_vars", "show_comm_config")
    refusals = ("diagnostics are off", "authentication_error", "not authorized")
    with session(lab.coordinator) as flare:
        answers = {name: str(flare.do_command(f"{name} west")) for name in commands}
        answers["sys_info"] = str(flare.do_command("sys_info client west"))
        assert "diagnostics are off" in answers["process_info"]
        own = str(flare.do_command("process_info server"))
    for name, answer in answers.items():
        assert any(word in answer.lower() for word in refusals), (name, answer)
    assert not any(word in own.lower() for word in refusals)


def test_refused_jobs_are_in_the_audit(refusals: dict[str, str], lab: Any) -> None:
    reasons = [e["reason"] for _, e in read(lab.coordinator.audit.path) if e["event"] == "job-refused"]
    assert any("evil.py" in reason for reason in reasons)
    assert any("ClientAPILauncherExecutor" in reason for reason in reasons)


# ---- who may connect --------------------------------------------------------------------------


def _certificate(folder: Path, authority: Path, days: int, name: str = "west") -> tuple[Path, Path]:
    """A certificate for `name` by the authority in `authority`, ending `days` from now."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    state = json.loads(next(authority.rglob("cert.json")).read_text())
    issuer = x509.load_pem_x509_certificate(state["root_cert"].encode())
    signer: Any = serialization.load_pem_private_key(state["root_pri_key"].encode(), None)
    key = rsa.generate_private_key(65537, 2048)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .sign(signer, hashes.SHA256())
    )
    folder.mkdir()
    (folder / "client.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (folder / "client.key").write_bytes(pem)
    return folder / "client.crt", folder / "client.key"


def _handshake(port: int, root: Path, pair: tuple[Path, ...] | None, patience: float = 60.0) -> str:
    """What the coordinator's port says to a certificate: the refusal, or 'admitted' if none comes in time."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(root))
    context.check_hostname = False
    if pair is not None:
        context.load_cert_chain(*map(str, pair))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
            context.wrap_socket(plain) as secure,
        ):
            secure.settimeout(patience)
            return "admitted" if secure.recv(1) else "closed"
    except TimeoutError:
        return "admitted"
    except (ssl.SSLError, ConnectionError) as error:
        return str(error)


def test_only_a_valid_certificate_of_this_federation_is_let_in(lab: Any, tmp_path: Path) -> None:
    root = lab.kits["west"] / "startup" / "rootCA.pem"
    own = (lab.kits["west"] / "startup" / "client.crt", lab.kits["west"] / "startup" / "client.key")
    other = provision(parse_federation({"name": "other", "silos": SILOS}), tmp_path / "other")
    foreign = (other["west"] / "startup" / "client.crt", other["west"] / "startup" / "client.key")
    expired = _certificate(tmp_path / "expired", lab.root / "federation" / "authority", days=-1)
    assert _handshake(lab.port, root, own, patience=3.0) == "admitted"
    assert "certificate" in _handshake(lab.port, root, None)
    assert "expired" in _handshake(lab.port, root, expired)
    assert "unknown ca" in _handshake(lab.port, root, foreign).lower()


def test_connections_that_say_nothing_keep_neither_silos_nor_the_operator_out(lab: Any) -> None:
    root = lab.kits["west"] / "startup" / "rootCA.pem"
    own = tuple(lab.kits["west"] / "startup" / name for name in ("client.crt", "client.key"))
    operator = tuple(lab.kits["coordinator"] / "operator/startup" / n for n in ("client.crt", "client.key"))
    place = lab.federation.coordinator
    with contextlib.ExitStack() as stack:
        for port in (place.port, place.operator_port):
            for _ in range(60):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert _handshake(place.port, root, own, patience=3.0) == "admitted"
        assert _handshake(place.operator_port, root, operator, patience=3.0) == "admitted"


def test_a_silos_certificate_opens_no_operator_session(lab: Any) -> None:
    root = lab.kits["west"] / "startup" / "rootCA.pem"
    own = tuple(lab.kits["west"] / "startup" / name for name in ("client.crt", "client.key"))
    operator = tuple(lab.kits["coordinator"] / "operator/startup" / n for n in ("client.crt", "client.key"))
    place = lab.federation.coordinator
    assert _handshake(place.operator_port, root, own) != "admitted"
    assert _handshake(place.port, root, operator) != "admitted"


def test_a_kit_with_another_silos_certificate_never_becomes_a_member(lab: Any, tmp_path: Path) -> None:
    """TLS lets it in (it is of this federation), but it cannot register under a name that is not its own."""
    before = lab.session("east")
    kit = tmp_path / "east"
    shutil.copytree(lab.kits["east"], kit)
    for name in ("client.crt", "client.key"):
        shutil.copy(lab.kits["west"] / "startup" / name, kit / "startup" / name)
    for trace in (*kit.glob("*.log"), *kit.glob("log*"), kit / "site.pid", kit / "audit.jsonl"):
        trace.unlink()
    kit.chmod(0o700)
    refused = lab.entente("federation", "start", kit, "--background")
    assert refused.returncode == 10
    assert "the certificate is for 'west'" in refused.stderr
    intruder = Site.load(kit)
    pid = process.start(intruder)  # past our own check, as somebody with bad intentions would
    try:
        console = lab.kits["coordinator"] / "console.log"
        refusal = "authenticated as 'west' but claimed endpoint 'east'"
        lab.wait(lambda: refusal in console.read_text(), 60, "a refusal")
        assert "Successfully registered" not in (kit / "console.log").read_text()
        assert lab.session("east") == before
    finally:
        os.killpg(pid, signal.SIGKILL)
