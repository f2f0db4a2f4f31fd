"""A site makes its own private key and a signing request; the authority signs; the key never travels."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from entente.artifacts import private_files, write_text
from entente.deployment.provision import COORDINATOR, load_kit, make_private, operator_name
from entente.deployment.settings import FederationFile
from entente.errors import DeploymentError, UsageError

BITS = 3072


@dataclass(frozen=True, slots=True)
class Credential:
    """A key that a site needs: whose it is for the authority, and where it lies in the kit."""

    subject: str
    key: str
    certificate: str
    request: str


def credentials(federation: FederationFile, site: str) -> list[Credential]:
    """The keys of one site; the coordinator's machine holds its operator's too."""
    if site == COORDINATOR:
        folder = "operator/startup"
        return [
            Credential(
                federation.coordinator.host, "startup/server.key", "startup/server.crt", "coordinator.csr"
            ),
            Credential(
                operator_name(federation.name), f"{folder}/client.key", f"{folder}/client.crt", "operator.csr"
            ),
        ]
    if site not in federation.silos:
        raise UsageError(
            f"there is no site {site!r} in this federation",
            remedy=f"Sites are: {', '.join((COORDINATOR, *federation.silos))}.",
        )
    return [Credential(site, "startup/client.key", "startup/client.crt", f"{site}.csr")]


def request(federation: FederationFile, site: str, out: Path, *, new_key: bool = False) -> dict[Path, str]:
    """Make this site's keys under `out`, where there are none yet, and their signing requests.

    Returns request -> fingerprint of the public key, which the authority should be told over another channel.
    """
    made: dict[Path, str] = {}
    with private_files():
        for credential in credentials(federation, site):
            path = out / credential.key
            if new_key or not path.exists():
                key = generate_private_key(65537, BITS)
                pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
                write_text(path, pem.decode())
            key = _private_key(path)
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, credential.subject)])
            signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
            write_text(out / credential.request, signed.public_bytes(Encoding.PEM).decode())
            made[out / credential.request] = fingerprint(key.public_key())
    make_private(out)
    return made


def complete(federation: FederationFile, site: str, out: Path, received: Path) -> Path:
    """Put the kit that the authority sent around the keys that were made here; returns the finished kit."""
    kit = load_kit(received)
    if kit.site != site:
        raise DeploymentError(f"is the kit of {kit.site!r}, not of {site!r}", where=received)
    for credential in credentials(federation, site):
        if (received / credential.key).exists():
            raise DeploymentError(
                f"holds a private key ({credential.key}): it was made by somebody else",
                where=received,
                remedy="Let the authority provision with --requests.",
            )
        path = received / credential.certificate
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DeploymentError(f"is not a certificate ({error})", where=path) from error
        if certificate.public_key() != _private_key(out / credential.key).public_key():
            raise DeploymentError("is for another key than the one made here", where=path)
    with private_files():
        shutil.copytree(received, out, dirs_exist_ok=True)
        for credential in credentials(federation, site):
            (out / credential.request).unlink(missing_ok=True)
    make_private(out)
    return out


def fingerprint(key: RSAPublicKey) -> str:
    """SHA-256 of a public key, in groups that can be read over the telephone."""
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    return " ".join(digest[i : i + 8] for i in range(0, 64, 8))


def _private_key(path: Path) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise DeploymentError(
            f"the private key cannot be read ({error})",
            where=path,
            remedy="Make it with `entente federation join` first.",
        ) from error
    if not isinstance(key, RSAPrivateKey):
        raise DeploymentError("is not an RSA key", where=path)
    return key
