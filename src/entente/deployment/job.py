"""A job: three configuration files and a name. Written by `submit`, checked again at every site."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entente.artifacts import write_json, write_text
from entente.config import Data, Experiment, parse_experiment, read_toml, to_toml
from entente.deployment.policy import CONTROLLER, EXECUTOR
from entente.deployment.relay import check_turns
from entente.deployment.settings import FederationFile, needed
from entente.deployment.wire import MODEL, TASK
from entente.errors import ConfigError

APP = "entente"
EXPERIMENT = "experiment.toml"
SERVER_FILE = "config_fed_server.json"
CLIENT_FILE = "config_fed_client.json"


def server_config(relay: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Of a run; with `relay` (turns, pause) of a job that only carries the exchange's packets."""
    return {
        "format_version": 2,
        "server": {"task_request_interval": 0.1},
        "workflows": [{"id": "coordinator", "path": CONTROLLER, "args": {"relay": dict(relay or {})}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def client_config(relay: bool = False) -> dict[str, Any]:
    return {
        "format_version": 2,
        "executors": [{"tasks": [TASK, MODEL], "executor": {"path": EXECUTOR, "args": {"relay": relay}}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def portable(experiment: Experiment) -> Experiment:
    """The experiment without anything that is a site's own business: paths of data and secret."""
    own = {"events": Data().events, "silos": None}
    return experiment.model_copy(
        update={
            "data": experiment.data.model_copy(update=own),
            "graph": experiment.graph.model_copy(update={"secret": None}),  # no secret at all # nosec B105
            "workers": 1,
        }
    )


def run_name(experiment: Experiment) -> str:
    """The run's folder name: the same experiment always has the same, so that it can be resumed."""
    words = re.sub(r"[^a-z0-9]+", "-", experiment.name.lower()).strip("-")[:40] or "run"
    return f"{words}-{config_hash(experiment)[:12]}"


def config_hash(experiment: Experiment) -> str:
    return hashlib.sha256(to_toml(portable(experiment)).encode()).hexdigest()


def write_job(
    folder: Path,
    experiment: Experiment,
    federation: FederationFile,
    relay: Mapping[str, Any] | None = None,
) -> Path:
    """Write the job for `experiment` under `folder`; returns the job folder FLARE wants."""
    config = folder / APP / APP / "config"
    write_json(config / SERVER_FILE, server_config(relay))
    write_json(config / CLIENT_FILE, client_config(relay is not None))
    write_text(config / EXPERIMENT, to_toml(portable(experiment)))
    write_json(
        folder / APP / "meta.json",
        {
            "name": run_name(experiment),
            "resource_spec": {},
            "min_clients": needed(experiment.federation.quorum, len(federation.silos)),
            "deploy_map": {APP: ["server", *federation.silos]},
        },
    )
    return folder / APP


def read_experiment(config: Path) -> Experiment:
    """The experiment in an application's configuration folder."""
    path = config / EXPERIMENT
    return parse_experiment(read_toml(path), path)


def why_refused(application: Path, experiment_limit: int = 1_000_000) -> str | None:
    """Why an application is more than our configuration, in words; None if it is nothing else."""
    allowed = {f"config/{name}" for name in (SERVER_FILE, CLIENT_FILE, EXPERIMENT)}
    for path in sorted(application.rglob("*")):
        name = path.relative_to(application).as_posix()
        if path.is_symlink():
            return f"{name} is a link"
        if path.is_dir() and name != "config":
            return f"folder {name} has no place in a job (code does not travel)"
        if path.is_file() and name not in allowed and not Path(name).name.startswith(".__nvfl_"):
            return f"file {name} has no place in a job (code does not travel)"
    config = application / "config"
    relay = _relay_of(config / SERVER_FILE)
    if relay is not None and (said := check_turns(**relay)) is not None:
        return said
    for name, wanted in (
        (SERVER_FILE, server_config(relay)),
        (CLIENT_FILE, client_config(relay is not None)),
    ):
        path = config / name
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return f"{name} is missing or not JSON"
        if given != wanted:
            return (
                f"{name} is not the configuration this version of entente writes{_difference(given, wanted)}"
            )
    path = config / EXPERIMENT
    if not path.is_file() or path.stat().st_size > experiment_limit:
        return f"{EXPERIMENT} is missing or over-sized"
    try:
        experiment = read_experiment(config)
    except ConfigError as error:
        return str(error)
    if experiment.mode != "federated":
        return f"{EXPERIMENT} asks for a mode that is not a federation"
    if experiment != portable(experiment):
        return f"{EXPERIMENT} names paths; those are each site's own business"
    return None


def _relay_of(path: Path) -> dict[str, Any] | None:
    """What a relay's job asks for; None where the file is not that of one."""
    try:
        relay = json.loads(path.read_text(encoding="utf-8"))["workflows"][0]["args"]["relay"]
    except (OSError, ValueError, RecursionError, KeyError, IndexError, TypeError):
        return None
    return relay if isinstance(relay, dict) and set(relay) == {"turns", "pause"} else None


def _difference(given: Any, wanted: dict[str, Any]) -> str:
    """Names the first class that is not ours, which is what a reader of the audit wants to know."""
    text = json.dumps(given)
    classes = re.findall(r'"(?:class_)?(?:path|name)": "([\w.]+)"', text)
    foreign = [name for name in classes if name not in json.dumps(wanted)]
    return f" (it names {foreign[0]})" if foreign else ""
