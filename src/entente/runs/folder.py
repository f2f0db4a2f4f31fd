"""What a run leaves on disk, and how it goes on after a kill at any point.

A checkpoint is one directory, written under another name and renamed: it is there whole or not at
all. `rounds.jsonl` is appended first; on resume, records beyond the checkpoint are dropped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from numpy.typing import NDArray

from entente.artifacts import Arrays, read_arrays, read_json, write_arrays, write_json, write_text
from entente.config import Experiment, load_experiment, to_toml
from entente.errors import StorageError, UsageError

Saved = tuple[dict[str, Any], Arrays]
"""Facts (JSON) and arrays of one party, enough to go on bit for bit."""


class Checkpoints:
    """The last complete step of one federation: the coordinator's state and every silo's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, coordinator: Saved, silos: Mapping[str, Saved]) -> None:
        step = (self._last() or 0) + 1
        target = self.path / f"{step:08d}"
        with _storage(target):
            temporary = self.path / f".{step:08d}.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            _write(temporary, "coordinator", coordinator)
            for name, saved in silos.items():
                _write(temporary, _file(name), saved)
            _sync(temporary)
            temporary.rename(target)
            _sync(self.path)
            for old in self._steps()[:-1]:
                shutil.rmtree(self.path / f"{old:08d}", ignore_errors=True)

    def load(self) -> tuple[Saved, dict[str, Saved]] | None:
        """The last complete checkpoint, or None when there is none yet."""
        step = self._last()
        if step is None:
            return None
        folder = self.path / f"{step:08d}"
        silos = {
            unquote(file.stem.removeprefix("silo-")): _read(folder, file.stem)
            for file in sorted(folder.glob("silo-*.json"))
        }
        return _read(folder, "coordinator"), silos

    def _steps(self) -> list[int]:
        return sorted(int(p.name) for p in self.path.glob("[0-9]*") if p.name.isdigit())

    def _last(self) -> int | None:
        steps = self._steps()
        return steps[-1] if steps else None


class RunFolder:
    """The files of a run, by the names that others rely on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def started(self) -> bool:
        return (self.path / "experiment.toml").exists()

    def begin(self, experiment: Experiment, *, resume: bool) -> None:
        """Claim the folder for `experiment`; with `resume` it must hold the same one."""
        if not self.started:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self.path / "experiment.toml", _versions() + to_toml(experiment))
        elif not resume:
            raise UsageError(
                "holds a run already", where=self.path, remedy="Go on with --resume, or choose another --out."
            )
        elif self.experiment() != experiment:
            raise UsageError(
                "holds a run of another experiment",
                where=self.path,
                remedy="Resume with the same file and --set options, or choose another --out.",
            )

    def experiment(self) -> Experiment:
        return load_experiment(self.path / "experiment.toml")

    def checkpoints(self, part: str = "") -> Checkpoints:
        return Checkpoints(self.path / "checkpoints" / _file(part) if part else self.path / "checkpoints")

    def append_round(self, record: Mapping[str, Any]) -> None:
        with _storage(self.path), (self.path / "rounds.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")

    def rounds(self) -> list[dict[str, Any]]:
        """All complete records; a line cut short by a kill is not one."""
        path = self.path / "rounds.jsonl"
        records = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                records.append(json.loads(line))
            except ValueError:
                break
        return records

    def keep_rounds(self, records: list[dict[str, Any]]) -> None:
        lines = (json.dumps(record, sort_keys=True, allow_nan=False) + "\n" for record in records)
        write_text(self.path / "rounds.jsonl", "".join(lines))

    def write_model(self, models: Mapping[str, Arrays], facts: Mapping[str, Any]) -> None:
        """Store the model: one for all silos (key ""), or one per silo."""
        arrays = {
            f"{owner}/{name}" if owner else name: a for owner, m in models.items() for name, a in m.items()
        }
        write_arrays(self.path / "model.safetensors", arrays)
        write_json(self.path / "model.json", {**facts, "models": sorted(models)})

    def read_model(self) -> tuple[dict[str, Arrays], dict[str, Any]]:
        facts = read_json(self.path / "model.json")
        arrays = read_arrays(self.path / "model.safetensors")
        models: dict[str, Arrays] = {owner: {} for owner in facts["models"]}
        for name, array in arrays.items():
            owner, _, rest = name.rpartition("/")
            models[owner][rest] = array
        return models, facts

    def write_state(self, silo: str, state: Arrays, history: Arrays, facts: Mapping[str, Any]) -> None:
        """A silo's temporal state at the end of the test, so that detection goes on from there.

        `history` (window, src, dst) are the edges seen last, with which alerts explain themselves.
        """
        arrays = {f"state/{name}": array for name, array in state.items()}
        arrays |= {f"history/{name}": array for name, array in history.items()}
        _write(self.path / "state", _file(silo), (dict(facts), arrays))

    def has_state(self, silo: str) -> bool:
        return (self.path / "state" / f"{_file(silo)}.json").exists()

    def read_state(self, silo: str) -> tuple[dict[str, Any], Arrays, Arrays]:
        """Facts, temporal state and history, as `write_state` was given them."""
        facts, arrays = _read(self.path / "state", _file(silo))
        return facts, under("state/", arrays), under("history/", arrays)


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _file(name: str) -> str:
    """A silo's name as a file name: any name is safe."""
    return f"silo-{quote(name, safe='')}"


def _write(folder: Path, name: str, saved: Saved) -> None:
    facts, arrays = saved
    write_arrays(folder / f"{name}.safetensors", arrays)
    write_json(folder / f"{name}.json", facts)


def _read(folder: Path, name: str) -> Saved:
    return read_json(folder / f"{name}.json"), read_arrays(folder / f"{name}.safetensors")


def _sync(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _storage(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot be written ({error.strerror or error})",
            where=where,
            remedy="Free some space, then go on with --resume; the last checkpoint is intact.",
        ) from error


def _versions() -> str:
    from importlib.metadata import version

    names = ("entente", "torch", "numpy", "duckdb")
    return "# " + ", ".join(f"{name} {version(name)}" for name in names) + "\n"
