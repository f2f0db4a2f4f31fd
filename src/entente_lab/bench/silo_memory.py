"""What one silo needs, measured alone: `python -m entente_lab.bench.silo_memory EXPERIMENT.toml SILO`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from entente.config import load_experiment

CLEAR_PEAK = "5"  # Linux: makes VmHWM start again from the present size


def measure_silo(experiment: Path, silo: str) -> dict[str, float]:
    """Peak resident MB of a process that trains only this silo for one epoch, and before it had any data."""
    command = [sys.executable, "-m", "entente_lab.bench.silo_memory", str(experiment), silo]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - fixed words # nosec B603
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(path: Path, name: str) -> None:
    from entente.federation.messages import TrainTask
    from entente.runtime.assembly import initial_model, load_dataset
    from entente.runtime.participants import HONEST

    before = resident_mb("VmRSS")
    experiment = load_experiment(path)
    dataset = load_dataset(experiment, [name])
    silo = HONEST.build(experiment, dataset, name)
    # Reading the events of everybody is this machine's doing; a deployed silo has only its own.
    Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
    _, weights = initial_model(experiment, dataset.shape)
    silo.handle(TrainTask(1, round=1, epochs=1, weights=weights))
    sys.stdout.write(json.dumps({"peak_mb": resident_mb("VmHWM"), "before_mb": before}))


def resident_mb(field: str) -> float:
    """VmRSS (now) or VmHWM (largest so far) of this process in MB; Linux only."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"the system does not tell {field}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
