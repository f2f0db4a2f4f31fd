"""Keys of the secure sum, signed with the sites' certificates: the coordinator can carry, not swap them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from entente.deployment.site import Site
from entente.errors import DeploymentError, RefusedError

LENIENCE = timedelta(minutes=15)
"""Clocks of sites may differ by this much when a certificate's dates are looked at."""


@dataclass(frozen=True, slots=True)
class CertificateNotary:
    """Signs with this silo's private key; verifies with the federation's authority and nothing else.

    A proof is the silo's certificate and its signature over federation, run, silo and key.
    """

    site: Site
    run: str

    def sign(self, silo: str, key: str) -> str:
        folder = self.site.path / "startup"
        try:
            certificate = x509.load_pem_x509_certificate((folder / "client.crt").read_bytes())
            private: Any = load_pem_private_key((folder / "client.key").read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise DeploymentError(f"certificate or key cannot be read ({error})", where=folder) from error
        if not isinstance(private, RSAPrivateKey):
            raise DeploymentError("the site's key is not an RSA key", where=folder)
        signature = private.sign(self._statement(silo, key), _padding(), SHA256())
        parts = certificate.public_bytes(Encoding.DER), signature
        return ".".join(base64.b64encode(part).decode() for part in parts)

    def verify(self, silo: str, key: str, proof: str) -> None:
        """RefusedError unless the authority's certificate for `silo` signed this key for this run."""
        try:
            encoded, signature = (base64.b64decode(part, validate=True) for part in proof.split("."))
            certificate = x509.load_der_x509_certificate(encoded)
            certificate.verify_directly_issued_by(self._authority())
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            public = certificate.public_key()
            if [name.value for name in names] != [silo] or not isinstance(public, RSAPublicKey):
                raise ValueError("the certificate is another's")
            first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if not first - LENIENCE <= datetime.now(UTC) <= last + LENIENCE:
                raise ValueError("the certificate is not valid now")
            public.verify(signature, self._statement(silo, key), _padding(), SHA256())
        except (ValueError, TypeError, binascii.Error, InvalidSignature) as error:
            why = str(error) or type(error).__name__
            raise RefusedError(f"the key of silo {silo!r} is not signed by it ({why[:100]})") from error

    def _authority(self) -> x509.Certificate:
        path = self.site.path / "startup" / "rootCA.pem"
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DeploymentError(f"the authority cannot be read ({error})", where=path) from error

    def _statement(self, silo: str, key: str) -> bytes:
        words = ("entente secure sum key", self.site.kit.federation.name, self.run, silo, key)
        return b"".join(len(word.encode()).to_bytes(4, "big") + word.encode() for word in words)


def _padding() -> PSS:
    return PSS(MGF1(SHA256()), PSS.DIGEST_LENGTH)
