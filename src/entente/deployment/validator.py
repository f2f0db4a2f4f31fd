"""The gate before deployment: FLARE asks it at every site whether a job's files are acceptable."""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.app_validation import AppValidator

from entente.deployment.job import read_experiment, why_refused
from entente.deployment.site import Site


class ConfigurationOnly(AppValidator):  # type: ignore[misc]
    """Refuses every job that is more than our three configuration files, or breaks the agreed terms."""

    def __init__(self, role: str) -> None:
        self.role = role

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        site = Site.of_process()
        reason = why_refused(Path(app_folder))
        if reason is None:
            breach = site.kit.federation.terms.breach(read_experiment(Path(app_folder) / "config"))
            reason = f"breaks the agreed terms: {breach}" if breach else None
        if reason is not None:
            site.audit.append("job-refused", reason=reason)
            return f"refused by {site.name}: {reason}", {}
        return "", {}
