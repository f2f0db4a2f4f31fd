"""Passwords and tokens: named in the configuration, read from the environment or a file, never shown."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import model_validator

from entente.config import Section
from entente.errors import ConfigError

LONGEST = 64 * 1024


class Secret(Section):
    """Where a secret is kept: `{ env = "NAME" }` or `{ file = "path" }`."""

    env: str | None = None
    """Environment variable that holds it."""
    file: Path | None = None
    """File that holds it; white space around it does not count."""

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError('a secret is { env = "NAME" } or { file = "path" }, one of the two')
        return self

    def read(self, where: str) -> str:
        """The secret itself; `where` names the setting in errors."""
        if self.env is not None:
            value = os.environ.get(self.env, "")
            if not value:
                raise ConfigError(f"environment variable {self.env} is not set", where=where)
            return value
        assert self.file is not None
        try:
            value = self.file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"secret file {self.file} cannot be read ({error})", where=where) from error
        if not value or len(value) > LONGEST:
            raise ConfigError(f"secret file {self.file} is empty or over-sized", where=where)
        return value
