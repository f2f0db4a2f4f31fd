"""What a run leaves on disk, and how it goes on after a kill at any point.

`rounds.jsonl` is appended before the checkpoint is written; on resume, records beyond the checkpoint are
dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from entente.artifacts import (
    Arrays,
    append_line,
    array_bytes,
    arrays_of,
    fingerprint,
    locked,
    parse_json,
    write_bytes,
    write_text,
)
from entente.config import Experiment, load_experiment, to_toml
from entente.errors import StorageError, UsageError
from entente.federation.records import RoundRecord
from entente.runs.records import ModelCard, RunMetrics, RunRecord, parse
from entente.runs.states import States
from entente.runs.steps import Checkpoints, silo_file

EXPERIMENT, ROUNDS, METRICS = "experiment.toml", "rounds.jsonl", "metrics.json"
WEIGHTS, CARD, RUN = "model.safetensors", "model.json", "run.json"


class RunFolder:
    """The files of a run, by the names that others rely on.

    >>> from pathlib import Path
    >>> entente.RunFolder(Path("run")).has_model
    True
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def started(self) -> bool:
        return (self.path / EXPERIMENT).exists() or (self.path / "checkpoints").exists()

    def begin(self, experiment: Experiment, *, resume: bool) -> None:
        """Claim the folder for `experiment`; with `resume` it must hold the same one."""
        if not self.started:
            self.path.mkdir(parents=True, exist_ok=True)
            _began_with(experiment).store(self.path / RUN)
            write_text(self.path / EXPERIMENT, _versions() + to_toml(experiment))
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
        elif RunRecord.load(self.path / RUN) != _began_with(experiment):
            raise UsageError(
                "the events or the table of silos are not those that the run began with",
                where=self.path,
                remedy="Put them back as they were, or start anew with another --out.",
            )

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Hold the folder for this process; UsageError if another one has it for longer than `patience`."""
        with locked(self.path, "another process is working on this run", patience):
            yield

    def experiment(self) -> Experiment:
        return load_experiment(self.path / EXPERIMENT)

    def checkpoints(self, part: str = "") -> Checkpoints:
        path = self.path / "checkpoints"
        return Checkpoints(path / silo_file(part) if part else path)

    # ---- rounds ----------------------------------------------------------------------------

    def append_round(self, record: RoundRecord) -> None:
        append_line(self.path / ROUNDS, _line(record))

    def rounds(self) -> list[RoundRecord]:
        """All complete records; a last line cut short by a kill is not one."""
        path = self.path / ROUNDS
        records = []
        lines = _lines(path)
        for number, line in enumerate(lines, start=1):
            try:
                table = parse_json(line)
            except (ValueError, RecursionError) as error:
                if number == len(lines):
                    break
                raise StorageError(f"is not JSON ({error})", where=path, line=number) from error
            records.append(parse(RoundRecord, table, path, number))
        return records

    def keep_rounds(self, records: Iterable[RoundRecord]) -> None:
        write_text(self.path / ROUNDS, "".join(_line(record) + "\n" for record in records))

    # ---- model and metrics -----------------------------------------------------------------

    def write_model(self, models: Mapping[str, Arrays], card: ModelCard) -> None:
        """Store the model: one for all silos (key ""), or one per silo."""
        arrays = {
            f"{owner}/{name}" if owner else name: a for owner, m in models.items() for name, a in m.items()
        }
        data = array_bytes(arrays)
        write_bytes(self.path / WEIGHTS, data)
        sealed = {"models": tuple(sorted(models)), "weights_sha256": hashlib.sha256(data).hexdigest()}
        card.model_copy(update=sealed).store(self.path / CARD)

    @property
    def has_model(self) -> bool:
        return (self.path / CARD).is_file()

    def card(self) -> ModelCard:
        return ModelCard.load(self.path / CARD)

    def model_name(self) -> str:
        """Names a model by what decides its alerts: its weights and its thresholds."""
        card = self.card()
        facts = json.dumps([card.weights_sha256, card.thresholds], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:16]

    def read_model(self) -> tuple[dict[str, Arrays], ModelCard]:
        card, path = self.card(), self.path / WEIGHTS
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StorageError(f"cannot be read ({error.strerror})", where=path) from error
        if hashlib.sha256(data).hexdigest() != card.weights_sha256:
            raise StorageError("was changed or damaged: its checksum is not the recorded one", where=path)
        models: dict[str, Arrays] = {owner: {} for owner in card.models}
        for name, array in arrays_of(data).items():
            owner, _, rest = name.rpartition("/")
            models[owner][rest] = array
        return models, card

    def write_metrics(self, metrics: RunMetrics) -> None:
        metrics.store(self.path / METRICS)

    def metrics(self) -> RunMetrics:
        return RunMetrics.load(self.path / METRICS)

    # ---- silos -----------------------------------------------------------------------------

    @property
    def states(self) -> States:
        """What silos remember after the last window, so that detection goes on from there."""
        return States(self.path / "state")


def _began_with(experiment: Experiment) -> RunRecord:
    silos = experiment.data.silos
    return RunRecord(
        events=fingerprint(experiment.data.events), silos=fingerprint(silos) if silos is not None else None
    )


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot be read ({error.strerror})", where=path) from error


def _line(record: RoundRecord) -> str:
    return json.dumps(record.to_json(), sort_keys=True, allow_nan=False)


def _versions() -> str:
    from importlib.metadata import version

    names = ("entente", "torch", "numpy", "duckdb")
    return "# " + ", ".join(f"{name} {version(name)}" for name in names) + "\n"
