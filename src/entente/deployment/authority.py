"""The certificate authority: FLARE's, which also signs keys that were made at the sites."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from nvflare.lighter.impl.cert import CertBuilder

from entente.errors import DeploymentError

FEWEST_BITS = 2048
SITE_DAYS = 360
SLOW_CLOCKS = timedelta(hours=1)


def read_request(path: Path) -> tuple[str, RSAPublicKey]:
    """Whose signing request this is, and the public key in it; its holder has signed it."""
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key, signed = request.public_key(), request.is_signature_valid
    except (OSError, ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise DeploymentError(
            f"is not a signing request ({error})", where=path, remedy="`entente federation join` makes one."
        ) from error
    if not signed:
        raise DeploymentError("the signing request was not signed with its own key", where=path)
    if not isinstance(key, RSAPublicKey) or key.key_size < FEWEST_BITS:
        raise DeploymentError(f"the key is not RSA with {FEWEST_BITS} bits or more", where=path)
    if len(names) != 1:
        raise DeploymentError("the signing request does not name one site", where=path)
    return str(names[0].value), key


class Authority(CertBuilder):  # type: ignore[misc]
    """Makes keys for the sites, except for those whose own public key it is given: it only signs these.

    `requested` has subject -> public key. A certificate for the same key is not issued twice.
    """

    def __init__(self, root_valid_days: int, requested: Mapping[str, RSAPublicKey]) -> None:
        super().__init__(root_valid_days)
        self.requested = requested

    def _build_write_cert_pair(self, participant: Any, base_name: str, ctx: Any) -> None:
        subject = participant.subject
        stored = self.persistent_state.content.get(subject, {})
        wanted: Any = self.requested.get(subject)
        if wanted is None and stored and not stored.get("pri_key"):
            wanted = x509.load_pem_x509_certificate(stored["cert"].encode()).public_key()
        if wanted is None:
            super()._build_write_cert_pair(participant, base_name, ctx)
            return
        pem = stored.get("cert")
        if not pem or x509.load_pem_x509_certificate(pem.encode()).public_key() != wanted:
            pem = self._sign(participant, wanted).public_bytes(Encoding.PEM).decode()
        self.persistent_state.content[subject] = {"cert": pem, "pri_key": ""}
        folder = Path(ctx.get_kit_dir(participant))
        (folder / f"{base_name}.crt").write_text(pem, encoding="ascii")
        (folder / "rootCA.pem").write_bytes(self.serialized_cert)

    @staticmethod
    def _generate_cert(*args: Any, **kwargs: Any) -> Any:
        """As FLARE does it, but valid since an hour ago: a site's clock may be slow."""
        begin = kwargs.get("not_valid_before") or datetime.now(UTC)
        return CertBuilder._generate_cert(*args, **kwargs | {"not_valid_before": begin - SLOW_CLOCKS})

    def _sign(self, participant: Any, key: RSAPublicKey) -> x509.Certificate:
        now = datetime.now(UTC)
        certificate: x509.Certificate = self._generate_cert(
            participant.subject,
            participant.org,
            self.issuer,
            self.pri_key,
            key,
            role=participant.get_prop("role"),
            server=participant if participant.type == "server" else None,
            not_valid_before=now,
            not_valid_after=min(self.root_cert.not_valid_after_utc, now + timedelta(days=SITE_DAYS)),
        )
        return certificate
