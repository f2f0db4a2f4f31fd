"""Keys made at the sites: the authority signs them and never sees them."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from typer.testing import CliRunner

from entente.cli.federation import app
from entente.deployment.check import check
from entente.deployment.join import complete, request
from entente.deployment.provision import ISSUED, provision, read_requests
from entente.deployment.settings import FederationFile, parse_federation, template
from entente.deployment.site import Site
from entente.errors import ConfigError, DeploymentError, StorageError, UsageError

pytest.importorskip("nvflare")
SITES = ("coordinator", "north")


class Parties:
    """Two sites that make their own keys, one that does not, and an authority."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.federation: FederationFile = parse_federation({"name": "lab", "silos": ["north", "south"]})
        self.post = root / "requests"
        self.post.mkdir()
        for site in SITES:
            for path in request(self.federation, site, root / site):
                shutil.copy(path, self.post)
        self.requests = read_requests(self.federation, self.post)
        self.kits = provision(self.federation, root / "authority", requests=self.requests)
        for site in SITES:
            complete(self.federation, site, root / site, self.kits[site])


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties(tmp_path_factory.mktemp("join"))


def test_no_private_key_of_a_joining_site_is_ever_at_the_authority(parties: Parties) -> None:
    keys = [path.read_bytes() for site in SITES for path in (parties.root / site).rglob("*.key")]
    assert len(keys) == 3  # north, the coordinator and its operator
    held = [p for p in (parties.root / "authority").rglob("*") if p.is_file()]
    assert [p.parent.parent.name for p in held if p.suffix == ".key"] == ["south"]
    for path in (*held, *parties.post.iterdir()):
        assert all(key.strip() not in path.read_bytes() for key in keys), path
    state = json.loads((parties.root / "authority/authority/lab/state/cert.json").read_text())
    made_here = {name for name, entry in state.items() if isinstance(entry, dict) and entry["pri_key"]}
    assert made_here == {"south"}


def test_a_finished_kit_passes_the_check_and_is_private(parties: Parties) -> None:
    for site in SITES:
        kit = parties.root / site
        assert [f.message for f in check(Site.load(kit)) if f.level == "error"] == []
        for path in kit.rglob("*"):
            assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
        assert not list(kit.glob("*.csr"))


@pytest.mark.parametrize("content", [None, b"", b"[" * 5000, b"\xff"])
def test_the_check_finds_a_damaged_file_of_a_kit_whatever_is_in_it(
    parties: Parties, tmp_path: Path, content: bytes | None
) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(parties.root / "north", kit)
    for name in ("startup/rootCA.pem", "startup/client.crt", "local/resources.json"):
        file, before = kit / name, (kit / name).read_bytes()
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        assert [f.message for f in check(Site.load(kit)) if f.level == "error"]
        file.write_bytes(before)


def test_the_operators_certificate_has_its_role_and_the_coordinators_its_host(parties: Parties) -> None:
    from cryptography import x509

    kit = parties.root / "coordinator"
    operator = x509.load_pem_x509_certificate((kit / "operator/startup/client.crt").read_bytes())
    roles = operator.subject.get_attributes_for_oid(x509.NameOID.UNSTRUCTURED_NAME)
    assert [role.value for role in roles] == ["lead"]
    server = x509.load_pem_x509_certificate((kit / "startup/server.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)


def test_provisioning_again_keeps_the_certificates_and_the_list_of_serials_has_each_once(
    parties: Parties,
) -> None:
    before = (parties.kits["north"] / "startup/client.crt").read_bytes()
    issued = parties.root / "authority/authority" / ISSUED
    lines = issued.read_text().splitlines()
    again = provision(parties.federation, parties.root / "authority")
    assert (again["north"] / "startup/client.crt").read_bytes() == before
    assert not list(again["north"].rglob("*.key"))
    assert issued.read_text().splitlines() == lines
    entries = [json.loads(line) for line in lines]
    assert {e["site"]: e["key_made_at_site"] for e in entries} == {
        "coordinator": True,
        "north": True,
        "south": False,
    }
    with pytest.raises(ConfigError, match="made its own key"):
        provision(parties.federation, parties.root / "authority", renew=("north",))


def test_a_site_that_makes_its_own_key_later_gets_its_old_one_taken_away(
    parties: Parties, tmp_path: Path
) -> None:
    folder = tmp_path / "authority"
    shutil.copytree(parties.root / "authority", folder)
    made = request(parties.federation, "south", tmp_path / "south")
    keys = read_requests(parties.federation, next(iter(made)))
    kit = provision(parties.federation, folder, requests=keys)["south"]
    assert not list(kit.rglob("*.key"))
    complete(parties.federation, "south", tmp_path / "south", kit)


def test_a_kit_that_does_not_fit_is_refused(parties: Parties, tmp_path: Path) -> None:
    federation = parties.federation
    with pytest.raises(DeploymentError, match="is the kit of 'south'"):
        complete(federation, "north", tmp_path / "a", parties.kits["south"])
    with pytest.raises(DeploymentError, match="holds a private key"):
        complete(federation, "south", tmp_path / "b", parties.kits["south"])
    request(federation, "north", tmp_path / "c")
    with pytest.raises(DeploymentError, match="another key"):
        complete(federation, "north", tmp_path / "c", parties.kits["north"])
    with pytest.raises(DeploymentError, match="private key cannot be read"):
        complete(federation, "north", tmp_path / "d", parties.kits["north"])
    with pytest.raises(UsageError, match="no site 'east'"):
        request(federation, "east", tmp_path / "e")


def test_a_request_that_is_none_or_of_a_stranger_is_refused(parties: Parties, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csr"
    broken.write_text("-----BEGIN CERTIFICATE REQUEST-----\n")
    with pytest.raises(DeploymentError, match="not a signing request"):
        read_requests(parties.federation, broken)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DeploymentError, match="no signing request"):
        read_requests(parties.federation, tmp_path / "empty")
    other = parse_federation({"name": "lab", "silos": ["mallory"]})
    (stranger,) = request(other, "mallory", tmp_path / "mallory")
    with pytest.raises(DeploymentError, match="no site"):
        read_requests(parties.federation, stranger)
    twice = tmp_path / "twice"
    twice.mkdir()
    for copy in ("1.csr", "2.csr"):
        shutil.copy(parties.post / "north.csr", twice / copy)
    with pytest.raises(DeploymentError, match="second request"):
        read_requests(parties.federation, twice)


@pytest.mark.parametrize(
    ("before", "after"),
    [("06092a864886f70d010101", "06092a864886f70d01017f"), ("020100", "020112")],
    ids=["key", "version"],
)
def test_a_request_with_a_key_of_no_known_kind_is_refused(
    parties: Parties, tmp_path: Path, before: str, after: str
) -> None:
    made = x509.load_pem_x509_csr((parties.post / "north.csr").read_bytes()).public_bytes(Encoding.DER)
    strange = tmp_path / "north.csr"
    body = base64.encodebytes(made.replace(bytes.fromhex(before), bytes.fromhex(after), 1)).decode()
    strange.write_text(f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n")
    with pytest.raises(DeploymentError, match="not a signing request"):
        read_requests(parties.federation, strange)


def test_a_list_of_issued_certificates_that_was_cut_is_named_or_goes_on(
    parties: Parties, tmp_path: Path
) -> None:
    out = tmp_path / "again"
    provision(parties.federation, out)
    issued = out / "authority" / ISSUED
    lines = issued.read_text().splitlines(keepends=True)
    issued.write_text("".join(lines)[:-9])  # a kill cut the last line short
    provision(parties.federation, out)
    assert [json.loads(line)["serial"] for line in issued.read_text().splitlines()] == [
        json.loads(line)["serial"] for line in lines
    ]
    issued.write_text("[]\n" + "".join(lines))
    with pytest.raises(StorageError, match=f"{ISSUED}:1"):
        provision(parties.federation, out)


def test_the_command_line_makes_a_request_and_the_same_key_gives_the_same_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(template("lab", ("north", "south"), "localhost", 8102, 8103))
    words = ["join", str(file), "--site", "north", "--out", str(tmp_path / "north"), "--json"]
    first, again = (CliRunner().invoke(app, words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == json.loads(again.stdout)
    assert list(json.loads(first.stdout)) == [str(tmp_path / "north" / "north.csr")]
    renewed = CliRunner().invoke(app, [*words, "--new-key"])
    assert json.loads(renewed.stdout) != json.loads(first.stdout)
