"""The key of a secure sum is a silo's own if the certificate the authority gave it says so."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from entente.config import Experiment
from entente.deployment import notary as module
from entente.deployment.notary import CertificateNotary
from entente.deployment.provision import provision
from entente.deployment.settings import Terms, parse_federation
from entente.deployment.site import Site
from entente.deployment.submit import prepare
from entente.errors import ConfigError, RefusedError

KEY = "ab" * 32


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    pytest.importorskip("nvflare")
    folder = tmp_path_factory.mktemp("federation")
    kits = provision(parse_federation({"silos": ["north", "south"]}), folder)
    return {name: Site.load(kit) for name, kit in kits.items()}


def test_a_key_signed_at_one_silo_is_verified_at_another_and_at_the_coordinator(
    sites: dict[str, Site],
) -> None:
    proof = CertificateNotary(sites["north"], "run").sign("north", KEY)
    for reader in ("south", "coordinator"):
        CertificateNotary(sites[reader], "run").verify("north", KEY, proof)
    assert len(proof) < 8192


def test_another_key_run_or_name_is_refused(sites: dict[str, Site]) -> None:
    proof = CertificateNotary(sites["north"], "run").sign("north", KEY)
    south = CertificateNotary(sites["south"], "run")
    for silo, key, given in (
        ("north", "cd" * 32, proof),
        ("south", KEY, proof),
        ("north", KEY, ""),
        ("north", KEY, "x.y"),
        ("north", KEY, f"{proof}.{proof}"),
        ("north", KEY, proof.split(".")[0] + "." + base64.b64encode(bytes(256)).decode()),
    ):
        with pytest.raises(RefusedError, match="not signed by it"):
            south.verify(silo, key, given)
    with pytest.raises(RefusedError, match="not signed by it"):
        CertificateNotary(sites["south"], "another").verify("north", KEY, proof)


def test_a_certificate_of_another_authority_is_refused(sites: dict[str, Site], tmp_path: Path) -> None:
    foreign = provision(parse_federation({"silos": ["north"]}), tmp_path)
    proof = CertificateNotary(Site.load(foreign["north"]), "run").sign("north", KEY)
    with pytest.raises(RefusedError, match="not signed by it"):
        CertificateNotary(sites["south"], "run").verify("north", KEY, proof)


def test_clocks_ten_minutes_off_do_not_matter_and_an_expired_certificate_does(
    sites: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = CertificateNotary(sites["north"], "run").sign("north", KEY)
    south = CertificateNotary(sites["south"], "run")

    def at(offset: timedelta) -> None:
        moment = datetime.now(UTC) + offset

        class Clock(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
                return moment

        monkeypatch.setattr(module, "datetime", Clock)
        south.verify("north", KEY, proof)

    at(timedelta(minutes=-10))
    at(timedelta(minutes=10))
    with pytest.raises(RefusedError, match="not valid now"):
        at(timedelta(days=400))


# ---- terms ------------------------------------------------------------------------------------


def test_seeded_central_noise_cannot_be_agreed_and_secret_is_the_default() -> None:
    with pytest.raises(ConfigError, match="seeded generator can be removed"):
        parse_federation({"silos": ["a"], "terms": {"privacy": {"mechanism": "central"}}})
    assert Terms().privacy.randomness == "secret"
    agreed = parse_federation(
        {"silos": ["a"], "terms": {"privacy": {"mechanism": "central", "randomness": "secret", "clip": 1}}}
    )
    assert agreed.terms.apply(Experiment()).privacy == agreed.terms.privacy


def test_noise_that_was_not_agreed_is_an_error_at_submit_and_a_breach_at_a_silo(
    sites: dict[str, Site],
) -> None:
    seeded = Experiment.model_validate({"privacy": {"mechanism": "central", "clip": 1.0}})
    with pytest.raises(ConfigError, match=r"\[privacy\].*not what was agreed"):
        prepare(sites["coordinator"], seeded)
    terms = sites["north"].kit.federation.terms
    agreed = terms.apply(Experiment())
    assert terms.breach(agreed) is None
    crafted = agreed.model_copy(update={"privacy": seeded.privacy})
    assert "privacy.mechanism is 'central'" in str(terms.breach(crafted))


@pytest.mark.parametrize("asked", [{"roles": "/etc/passwd"}, {"nodes": "users"}])
def test_files_and_users_that_nobody_agreed_to_are_refused_at_submit_and_by_a_silo(
    sites: dict[str, Site], asked: dict[str, str]
) -> None:
    experiment = Experiment.model_validate({"graph": asked})
    with pytest.raises(ConfigError, match="in one machine"):
        prepare(sites["coordinator"], experiment)
    terms = sites["north"].kit.federation.terms
    agreed = terms.apply(Experiment())
    changed = {name: getattr(experiment.graph, name) for name in asked}
    crafted = agreed.model_copy(update={"graph": agreed.graph.model_copy(update=changed)})
    assert next(iter(asked)) in str(terms.breach(crafted))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"federation": {"rounds": 10_000}}, "federation.rounds is 10000"),
        ({"federation": {"epochs": 11}}, "federation.epochs is 11"),
        ({"graph": {"table_size": 1 << 22}}, "graph.table_size"),
        ({"detector": {"name": "euler", "hidden": 5000}}, "detector.hidden is 5000"),
        ({"detector": {"name": "behaviour", "replicas": 9999}}, "detector.replicas"),
        ({"data": {"window": 0.001}}, "data.window is 0.001 s"),
    ],
)
def test_more_than_a_ceiling_is_refused_at_submit_and_at_a_silo(
    sites: dict[str, Site], change: dict[str, object], said: str
) -> None:
    experiment = Experiment.model_validate(change)
    with pytest.raises(ConfigError, match=said):
        prepare(sites["coordinator"], experiment)
    terms = Terms()
    assert said in str(terms.breach(terms.apply(experiment)))


def test_training_in_batches_of_edges_is_within_the_default_terms(sites: dict[str, Site]) -> None:
    """A batch takes less memory than all edges at once; it is no width of the model."""
    experiment = Experiment.model_validate({"detector": {"name": "euler", "batch_edges": 2_000_000}})
    assert prepare(sites["coordinator"], experiment).detector.model_dump()["batch_edges"] == 2_000_000
    terms = Terms()
    assert terms.breach(terms.apply(experiment)) is None


def test_a_silos_job_gets_an_error_instead_of_more_memory_than_agreed() -> None:
    import subprocess
    import sys

    code = (
        "import numpy as np\n"
        "from entente.deployment.process import limit_memory\n"
        "limit_memory(1.0)\n"
        "try:\n"
        "    np.ones(200_000_000)\n"
        "except MemoryError:\n"
        "    print('refused')\n"
        "print(np.ones(10_000_000).sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["refused", "10000000.0"], done.stderr
