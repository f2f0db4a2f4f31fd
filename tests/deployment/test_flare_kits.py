"""Kits, policy and the gate before deployment: what a site gets, and what it lets in."""

from __future__ import annotations

import json
import stat
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from entente.config import Experiment
from entente.deployment import policy
from entente.deployment.check import check
from entente.deployment.guard import Holder
from entente.deployment.job import APP, portable, run_name, why_refused, write_job
from entente.deployment.provision import SECRET, load_kit, operator_name, provision
from entente.deployment.require import require_flare
from entente.deployment.revoke import revoke
from entente.deployment.settings import Terms, load_federation, needed, parse_federation, template
from entente.deployment.site import Site
from entente.deployment.submit import prepare
from entente.errors import ConfigError, DeploymentError, MissingExtraError, UsageError

SILOS = ("east", "north", "west")


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("nvflare")
    return provision(parse_federation({"silos": SILOS}), tmp_path_factory.mktemp("federation"))


# ---- the federation file ----------------------------------------------------------------------


def test_the_template_is_a_federation_file(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(template("lab", SILOS, "coordinator.example.org", 9000, 9001))
    federation = load_federation(file)
    assert federation.silos == SILOS
    assert federation.coordinator.host == "coordinator.example.org"
    assert federation.terms == Terms()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"silos": []}, "silos"),
        ({"silos": ["a", "a"]}, "same name"),
        ({"silos": ["coordinator"]}, "reserved"),
        ({"silos": ["../up"]}, "silos.0"),
        ({"colour": "red"}, "colour"),
        ({"coordinator": {"port": 1, "operator_port": 1}}, "differ"),
        ({"terms": {"identity": "shared-index"}}, "identity"),
        ({"terms": {"quorum": 0}}, "quorum"),
    ],
)
def test_a_wrong_federation_file_is_an_error_that_names_the_key(change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_federation({"silos": list(SILOS), **change})


def test_a_missing_or_broken_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_federation(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("silos = [")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_federation(tmp_path / "broken.toml")


@pytest.mark.parametrize(
    ("share", "silos", "count"), [(0.5, 3, 2), (0.5, 4, 2), (0.5, 1, 1), (1.0, 5, 5), (0.1, 3, 1)]
)
def test_a_quorum_is_rounded_up(share: float, silos: int, count: int) -> None:
    assert needed(share, silos) == count


def test_an_experiment_takes_over_the_agreed_terms_and_a_breach_is_named() -> None:
    terms = Terms(quorum=1.0, deadline=7)
    experiment = Experiment()
    assert "quorum" in str(terms.breach(experiment))
    agreed = terms.apply(experiment)
    assert terms.breach(agreed) is None
    assert agreed.federation.deadline == 7
    assert agreed.graph.identity == "keyed-hash"


# ---- kits -------------------------------------------------------------------------------------


def test_every_site_gets_one_kit_and_only_silos_get_the_secret(kits: dict[str, Path]) -> None:
    assert set(kits) == {"coordinator", *SILOS}
    secret = (kits["east"] / "local" / SECRET).read_bytes()
    assert len(secret.strip()) == 64
    for silo in SILOS:
        assert (kits[silo] / "local" / SECRET).read_bytes() == secret
    for path in kits["coordinator"].rglob("*"):
        assert not path.is_file() or secret.strip() not in path.read_bytes(), path


def test_kits_and_authority_are_private(kits: dict[str, Path]) -> None:
    out = kits["coordinator"].parents[1]
    for path in out.rglob("*"):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_no_kit_holds_another_sites_key_or_the_authoritys(kits: dict[str, Path]) -> None:
    keys = [path.read_bytes() for kit in kits.values() for path in kit.rglob("*.key")]
    assert len(keys) == len(set(keys)) == 5  # coordinator, its operator, three silos
    state = json.loads((kits["east"].parents[1] / "authority/federation/state/cert.json").read_text())
    assert all(state["root_pri_key"].encode() not in key for key in keys)


def test_nobody_is_provisioned_as_super_and_the_operator_is_a_lead(kits: dict[str, Path]) -> None:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    certificate = x509.load_pem_x509_certificate(
        (kits["coordinator"] / "operator/startup/client.crt").read_bytes()
    )
    roles = [a.value for a in certificate.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)]
    assert roles == ["lead"]
    for kit in kits.values():
        for file in kit.rglob("*.crt"):
            assert b"super" not in x509.load_pem_x509_certificate(file.read_bytes()).subject.public_bytes()


def test_a_fresh_certificate_is_valid_where_the_clock_is_ten_minutes_slow(kits: dict[str, Path]) -> None:
    from cryptography import x509

    now = datetime.now(UTC)
    for kit in kits.values():
        for file in (*kit.rglob("*.crt"), kit / "startup/rootCA.pem"):
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            assert certificate.not_valid_before_utc < now - timedelta(minutes=10)
            assert certificate.not_valid_after_utc > now + timedelta(days=359)
    assert _errors(Site.load(kits["east"]), now - timedelta(minutes=10)) == ""


def test_the_policy_forbids_code_shells_and_log_streaming(kits: dict[str, Path]) -> None:
    for site, kit in kits.items():
        resources = json.loads((kit / "local/resources.json").read_text())
        rights = json.loads((kit / "local/authorization.json").read_text())["permissions"]
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["class_allow_list"] == [
            policy.CONTROLLER if site == "coordinator" else policy.EXECUTOR
        ]
        assert resources["app_validator"]["path"] == policy.VALIDATOR
        assert all(r["byoc"] == "none" and r["shell_commands"] == "none" for r in rights.values())
        assert not any("log" in c["id"] for c in resources["components"])
        assert not list(kit.rglob("*.sh"))
        if site != "coordinator":
            assert resources["allow_log_streaming"] is False
            assert rights["lead"]["operate"] == "none"


def test_stores_live_in_the_kit_and_the_operators_port_is_loopback(kits: dict[str, Path]) -> None:
    text = (kits["coordinator"] / "local/resources.json").read_text()
    assert "/tmp/nvflare" not in text
    assert str(kits["coordinator"].resolve() / "store") in text
    server = json.loads((kits["coordinator"] / "startup/fed_server.json").read_text())["servers"][0]
    assert server["admin_host"] == "127.0.0.1"
    assert server["connection_security"] == "mtls"
    assert server["service"]["scheme"] == policy.GUARDED


def test_provisioning_again_adds_a_silo_and_renews_only_what_was_named(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    first = provision(parse_federation({"silos": ["a", "b"]}), tmp_path)
    before = {site: (kit / "startup/client.crt") for site, kit in first.items() if site != "coordinator"}
    old = {site: path.read_bytes() for site, path in before.items()}
    secret = (first["a"] / "local" / SECRET).read_text()
    (first["a"] / "local/site.json").write_text('{"events": "/e", "hosts": null}')
    again = provision(parse_federation({"silos": ["a", "b", "c"]}), tmp_path, renew=("b",))
    assert before["a"].read_bytes() == old["a"]
    assert before["b"].read_bytes() != old["b"]
    assert (again["c"] / "local" / SECRET).read_text() == secret
    assert (again["a"] / "local/site.json").exists()
    assert load_kit(again["a"]).federation.silos == ("a", "b", "c")
    with pytest.raises(ConfigError, match="--renew names 'z'"):
        provision(parse_federation({"silos": ["a"]}), tmp_path, renew=("z",))


def test_a_folder_that_is_no_kit_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="is not a start-up kit"):
        load_kit(tmp_path)


def test_without_flare_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def absent(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("entente.deployment.require.version", absent)
    with pytest.raises(MissingExtraError, match=r"entente\[flare\]"):
        require_flare()
    monkeypatch.setattr("entente.deployment.require.version", lambda _: "2.7.1")
    with pytest.raises(MissingExtraError, match=r"2\.7\.1"):
        require_flare()


# ---- jobs: configuration and nothing else -----------------------------------------------------


@pytest.fixture
def application(tmp_path: Path) -> Path:
    federation = parse_federation({"silos": SILOS})
    experiment = portable(federation.terms.apply(Experiment(name="Lab run")))
    return write_job(tmp_path, experiment, federation) / APP


def test_our_own_job_passes_the_gate(application: Path) -> None:
    assert why_refused(application) is None
    meta = json.loads((application.parent / "meta.json").read_text())
    assert meta["deploy_map"] == {APP: ["server", *SILOS]}
    assert meta["min_clients"] == 2


def _edit(application: Path, name: str, change: Any) -> None:
    path = application / "config" / name
    table = json.loads(path.read_text())
    table.update(change)
    path.write_text(json.dumps(table))


SHELL = {
    "path": "nvflare.app_common.launchers.subprocess_launcher.SubprocessLauncher",
    "args": {"script": "id"},
}


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda a: (a / "custom").mkdir(), "folder custom"),
        (lambda a: (a / "config/extra.py").write_text("import os"), "file config/extra.py"),
        (lambda a: (a / "config/link").symlink_to("/etc/passwd"), "is a link"),
        (
            lambda a: _edit(
                a, "config_fed_client.json", {"executors": [{"tasks": ["entente"], "executor": SHELL}]}
            ),
            "SubprocessLauncher",
        ),
        (lambda a: _edit(a, "config_fed_client.json", {"components": [SHELL]}), "SubprocessLauncher"),
        (lambda a: _edit(a, "config_fed_server.json", {"workflows": []}), "config_fed_server.json"),
        (lambda a: (a / "config/config_fed_server.json").unlink(), "missing or not JSON"),
        (lambda a: (a / "config/experiment.toml").unlink(), "missing"),
        (lambda a: (a / "config/experiment.toml").write_text("colour = 1"), "colour"),
        (lambda a: (a / "config/experiment.toml").write_text('[data]\nevents = "/etc"'), "own business"),
        (lambda a: (a / "config/experiment.toml").write_text('mode = "non-fl"'), "not a federation"),
        (lambda a: (a / "config/experiment.toml").write_text("#" * 1_100_000), "over-sized"),
    ],
)
def test_anything_but_our_configuration_is_refused_by_name(
    application: Path, tamper: object, said: str
) -> None:
    tamper(application)  # type: ignore[operator]
    assert said in str(why_refused(application))


def test_an_experiment_travels_without_paths_and_keeps_its_name_when_resumed(kits: dict[str, Path]) -> None:
    site = Site.load(kits["coordinator"])
    experiment = Experiment.model_validate({"data": {"events": "/secret/place"}, "name": "Lab"})
    prepared = prepare(site, experiment)
    assert "secret" not in str(prepared.data)
    elsewhere = experiment.model_copy(
        update={"data": experiment.data.model_copy(update={"events": Path("/other")})}
    )
    assert run_name(prepare(site, elsewhere)) == run_name(prepared)
    assert run_name(prepared.model_copy(update={"seed": 5})) != run_name(prepared)


def test_other_modes_and_silos_kits_cannot_be_submitted(kits: dict[str, Path]) -> None:
    alone = Experiment(mode="local-only")
    with pytest.raises(ConfigError, match="federated"):
        prepare(Site.load(kits["coordinator"]), alone)
    with pytest.raises(UsageError, match="is a silo"):
        prepare(Site.load(kits["east"]), Experiment())


# ---- pre-flight -------------------------------------------------------------------------------


def _errors(site: Site, now: datetime | None = None) -> str:
    return "; ".join(f.message for f in check(site, now) if f.level == "error")


def _copy(kit: Path, target: Path) -> Site:
    import shutil

    shutil.copytree(kit, target)
    target.chmod(0o700)
    return Site.load(target)


def test_a_fresh_kit_passes_the_pre_flight_check(kits: dict[str, Path], tmp_path: Path) -> None:
    for name in ("coordinator", "east"):
        assert _errors(_copy(kits[name], tmp_path / name)) == ""


def test_an_expired_certificate_and_a_wrong_clock_are_named(kits: dict[str, Path]) -> None:
    site = Site.load(kits["east"])
    assert "expired" in _errors(site, datetime.now(UTC) + timedelta(days=400))
    assert "clock" in _errors(site, datetime.now(UTC) - timedelta(days=2))


def test_the_check_names_what_is_wrong_with_a_kit(kits: dict[str, Path], tmp_path: Path) -> None:
    foreign = provision(parse_federation({"silos": ["east"], "name": "other"}), tmp_path / "other")
    site = _copy(kits["east"], tmp_path / "east")
    for name in ("client.crt", "client.key"):
        (site.path / "startup" / name).write_bytes((foreign["east"] / "startup" / name).read_bytes())
    assert "not issued by this federation" in _errors(site)

    site = _copy(kits["east"], tmp_path / "swapped")
    for name in ("client.crt", "client.key"):
        (site.path / "startup" / name).write_bytes((kits["west"] / "startup" / name).read_bytes())
    assert "is for 'west'" in _errors(site)

    site = _copy(kits["east"], tmp_path / "open")
    (site.path / "local" / SECRET).chmod(0o644)
    (site.path / "local/custom").mkdir()
    assert "can be read by others" in _errors(site)
    assert "local code would be loaded" in _errors(site)

    site = _copy(kits["coordinator"], tmp_path / "leaky")
    (site.path / "local" / SECRET).write_text("x")
    assert "holds the host-hash secret" in _errors(site)

    site = _copy(kits["east"], tmp_path / "old")
    table = json.loads((site.path / "kit.json").read_text())
    (site.path / "kit.json").write_text(json.dumps(table | {"version": "99.0.0"}))
    assert "99.0.0" in _errors(Site.load(site.path))


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    import socket

    pytest.importorskip("nvflare")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        federation = parse_federation({"silos": ["a"], "coordinator": {"port": port, "operator_port": 1024}})
        site = Site.load(provision(federation, tmp_path)["coordinator"])
        assert f"port {port} is taken" in _errors(site)


def test_a_silo_or_one_certificate_is_shut_out_and_let_in_again(
    kits: dict[str, Path], tmp_path: Path
) -> None:
    site = _copy(kits["coordinator"], tmp_path / "kit")
    gate = site.admission(operators=False)
    assert revoke(site, "west").names == {"west"}
    assert gate.refusal(Holder("west", "1")) == "its name is revoked"
    assert not revoke(site, "west", undo=True).names
    assert revoke(site, "west", "7").serials == {"7": "west"}
    assert "serial 7" in str(gate.refusal(Holder("west", "7")))
    assert gate.refusal(Holder("west", "8")) is None
    assert not revoke(site, "west", "7", undo=True).serials
    with pytest.raises(UsageError, match="no silo"):
        revoke(site, "nobody")
    with pytest.raises(UsageError, match="not a certificate's serial number"):
        revoke(site, "west", "0x7")
    with pytest.raises(UsageError, match="cannot shut out"):
        revoke(Site.load(kits["east"]), "west")


def test_each_port_is_for_its_own_certificates(kits: dict[str, Path]) -> None:
    site = Site.load(kits["coordinator"])
    operator = Holder(site.kit.operator, "1")
    assert site.admission(operators=True).refusal(operator) is None
    assert site.admission(operators=False).refusal(operator) is not None
    assert site.admission(operators=True).refusal(Holder("west", "1")) is not None


def test_the_operators_name_is_what_flare_calls_an_address() -> None:
    assert operator_name("lab") == "operator@lab.federation"
    assert tomllib.loads(template("lab", ("a",), "localhost", 1, 2))["name"] == "lab"


# ---- the policy as FLARE itself reads it ------------------------------------------------------


@pytest.mark.parametrize("right", ["byoc", "shell_commands", "download_job", "clone_job", "operate"])
@pytest.mark.parametrize("role", ["project_admin", "org_admin", "lead", "member"])
def test_flares_own_authorizer_grants_no_role_code_or_shell_at_a_silo(role: str, right: str) -> None:
    pytest.importorskip("nvflare")
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    authorizer = FLAuthorizer("east", policy.authorization(coordinator=False))
    granted, _ = authorizer.authorize(AuthzContext(right, Person("somebody", "east", role)))
    assert not granted


def test_flares_own_authorizer_lets_only_the_operator_submit() -> None:
    pytest.importorskip("nvflare")
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    authorizer = FLAuthorizer("east", policy.authorization(coordinator=False))
    roles = ["project_admin", "org_admin", "lead", "member"]
    granted = [
        role
        for role in roles
        if authorizer.authorize(AuthzContext("submit_job", Person("x", "coordinator", role)))[0]
    ]
    assert granted == ["lead"]


def test_flares_own_class_list_admits_our_class_alone(kits: dict[str, Path]) -> None:
    from nvflare.apis.fl_exception import UnsafeComponentError
    from nvflare.apis.workspace import Workspace
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer

    workspace = Workspace(str(kits["east"]), site_name="east")
    authorizer = ComponentPathAuthorizer()
    authorizer.authorize_component_config({"path": policy.EXECUTOR}, workspace=workspace)
    for foreign in (SHELL["path"], policy.CONTROLLER, f"{policy.EXECUTOR}2", "os.system", "entente.cli.main"):
        with pytest.raises(UnsafeComponentError):
            authorizer.authorize_component_config({"path": foreign}, workspace=workspace)


def test_a_long_message_to_a_slow_silo_leaves_the_coordinators_threads_to_the_others() -> None:
    """By itself FLARE has 64 frames on their way and sends all of them again every five seconds."""
    sfm = pytest.importorskip("nvflare.fuel.f3.sfm.conn_manager")
    says = policy.communication(256.0)
    on_their_way = says["streaming_window_size"] // says["streaming_chunk_size"] + 1
    silos = 20
    assert silos * on_their_way <= sfm.FRAME_THREAD_POOL_SIZE * 2 / 3
    assert says["streaming_ack_interval"] <= says["streaming_window_size"] / 2
    slow = 250_000  # bytes a second: what is on its way arrives before it is sent again
    assert on_their_way * says["streaming_chunk_size"] / slow < says["streaming_retry_wait"]
