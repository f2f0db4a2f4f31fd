"""What a run leaves on disk, and how it goes on after a kill at any point.

`rounds.jsonl` is appended before the checkpoint is written; on resume, records beyond the checkpoint are
dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pyarrow import parquet

from entente.artifacts import (
    Arrays,
    append_line,
    check_sealed,
    encode_bundle,
    read_arrays,
    read_bundle,
    read_json,
    sealed_directory,
    write_arrays,
    write_json,
    write_text,
)
from entente.config import Experiment, load_experiment, to_toml
from entente.errors import UsageError
from entente.graphs.hosts import HostTable
from entente.runs.steps import Checkpoints, silo_file


class RunFolder:
    """The files of a run, by the names that others rely on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def started(self) -> bool:
        return (self.path / "experiment.toml").exists() or (self.path / "checkpoints").exists()

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
        path = self.path / "checkpoints"
        return Checkpoints(path / silo_file(part) if part else path)

    def append_round(self, record: Mapping[str, Any]) -> None:
        append_line(self.path / "rounds.jsonl", json.dumps(record, sort_keys=True, allow_nan=False))

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

    def write_state(
        self, silo: str, state: Arrays, history: Arrays, hosts: HostTable, facts: Mapping[str, Any]
    ) -> None:
        """A silo's temporal state at the end of the test, so that detection goes on from there.

        `history` (window, src, dst) are the edges seen last, with which alerts explain themselves.
        """
        arrays = {f"state/{name}": array for name, array in state.items()}
        arrays |= {f"history/{name}": array for name, array in history.items()}
        with sealed_directory(self._state(silo)) as folder:
            (folder / "state.safetensors").write_bytes(encode_bundle(facts, arrays))
            parquet.write_table(hosts.to_arrow(), folder / "hosts.parquet")

    def has_state(self, silo: str) -> bool:
        return self._state(silo).exists()

    def read_state(self, silo: str) -> tuple[dict[str, Any], Arrays, Arrays, HostTable]:
        """Facts, temporal state, history and hosts, as `write_state` was given them."""
        folder = self._state(silo)
        check_sealed(folder)
        facts, arrays = read_bundle(folder / "state.safetensors")
        hosts = HostTable.from_arrow(parquet.read_table(folder / "hosts.parquet"))
        return facts, under("state/", arrays), under("history/", arrays), hosts

    def _state(self, silo: str) -> Path:
        return self.path / "state" / silo_file(silo)


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _versions() -> str:
    from importlib.metadata import version

    names = ("entente", "torch", "numpy", "duckdb")
    return "# " + ", ".join(f"{name} {version(name)}" for name in names) + "\n"
