"""The last few steps of a run on disk: the coordinator's checkpoints, or a deployed silo's states.

A step is one directory with a bundle per party and their checksums, written whole or not at all.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from entente.artifacts import Bundle, check_sealed, encode_bundle, read_bundle, sealed_directory
from entente.errors import StorageError

COORDINATOR = "coordinator"
_log = logging.getLogger(__name__)


class Steps:
    """Numbered steps in one folder, the last `kept` of them."""

    def __init__(self, path: Path, kept: int) -> None:
        self.path = path
        self.kept = kept

    def numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.path.glob("[0-9]*") if path.name.isdigit())

    def write(self, number: int, bundles: Mapping[str, Bundle]) -> None:
        """Store a step. Steps after it belong to a run that has gone back, and are removed."""
        with sealed_directory(self._folder(number)) as folder:
            for name, bundle in bundles.items():
                (folder / f"{name}.safetensors").write_bytes(encode_bundle(*bundle))
        steps = self.numbers()
        later, until = [s for s in steps if s > number], [s for s in steps if s <= number]
        for step in [*later, *until[: -self.kept]]:
            shutil.rmtree(self._folder(step), ignore_errors=True)

    def read(self, number: int) -> dict[str, Bundle]:
        """The bundles of a step by name; StorageError if a bit of it is not as it was written."""
        folder = self._folder(number)
        check_sealed(folder)
        return {file.stem: read_bundle(file) for file in sorted(folder.glob("*.safetensors"))}

    def _folder(self, number: int) -> Path:
        return self.path / f"{number:08d}"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A complete step of one federation: the coordinator's state, and that of every silo it keeps.

    `damaged` says, in words, which newer checkpoints could not be used.
    """

    coordinator: Bundle
    silos: dict[str, Bundle]
    damaged: tuple[str, ...] = ()


class Checkpoints:
    """The two last checkpoints of one federation; the older one is for the case that the newer is damaged."""

    def __init__(self, path: Path) -> None:
        self._steps = Steps(path, kept=2)

    def save(self, number: int, coordinator: Bundle, silos: Mapping[str, Bundle]) -> None:
        bundles = {COORDINATOR: coordinator} | {silo_file(name): saved for name, saved in silos.items()}
        self._steps.write(number, bundles)

    def load(self) -> Checkpoint | None:
        """The last checkpoint that is whole, None when there is none yet; StorageError if all are damaged."""
        damage: list[StorageError] = []
        for number in reversed(self._steps.numbers()):
            try:
                bundles = self._steps.read(number)
                coordinator = bundles.pop(COORDINATOR)
            except KeyError:
                damage.append(StorageError("holds no coordinator", where=self._steps.path / f"{number:08d}"))
            except StorageError as error:
                damage.append(error)
            else:
                for reason in damage:
                    _log.warning("%s; going on from the checkpoint before it", reason)
                silos = {silo_of(file): saved for file, saved in bundles.items()}
                return Checkpoint(coordinator, silos, tuple(str(reason) for reason in damage))
        if damage:
            raise damage[0]
        return None


def silo_file(name: str) -> str:
    """A silo's name as a file name: any name is safe."""
    return f"silo-{quote(name, safe='')}"


def silo_of(file: str) -> str:
    return unquote(file.removeprefix("silo-"))
