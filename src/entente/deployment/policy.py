"""Site policy: what FLARE may do at a site, written into its kit. No code travels.

A job is configuration only. Custom code is off (no BYOC right for anybody), the one class a job may
name is ours, no log leaves a site, and a validator of ours refuses anything else before deployment.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from entente.artifacts import write_json

ROOM = "entente.deployment"
CONTROLLER = f"{ROOM}.controller.CoordinatorController"
EXECUTOR = f"{ROOM}.executor.SiloExecutor"
VALIDATOR = f"{ROOM}.validator.ConfigurationOnly"
SUPERVISOR = f"{ROOM}.supervisor.Supervisor"
DIAGNOSTICS = f"{ROOM}.diagnostics.DiagnosticsOff"

GUARDED = "guarded"
"""The scheme of our own listener at the coordinator (`guarded_driver`); silos speak plain `tcp` to it."""
DRIVERS = Path(__file__).parent / "drivers"
HEARTBEAT = 20
"""Seconds between two signs of life on a connection that is otherwise silent."""
HEARTBEAT_TIMEOUT = 30
"""Seconds without a heartbeat after which a silo counts as away (FLARE's own default is 600)."""

FRAME = 1 << 20
"""Bytes of one frame of a long message. Two are on their way at a time, and each is acknowledged: until a
slow line has taken it, a frame holds one of the hundred threads that the coordinator has for all silos."""
RETRY = 15
"""Seconds after which a frame that was not acknowledged is sent again: more than 0.25 MB/s need for it."""
PATIENCE = 300
"""Seconds that a message waits for a line that is gone; the round itself ends at the deadline."""

ENVIRONMENT = {
    "NVFLARE_COMM_DRIVER_PATH": str(DRIVERS),
    "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "15",  # a dead silo would hold a finished job for 900 s
    "NVFLARE_DEAD_CLIENT_GRACE_PERIOD": "20",
    "NVFLARE_DEAD_CLIENT_CHECK_LEAD_TIME": "20",
    "NVFLARE_MAX_RUNNER_SYNC_TIMEOUT": "120",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
}
"""Read by FLARE's configuration service in every process of a site; a set variable of yours wins."""


RIGHTS = (
    "submit_job",
    "clone_job",
    "manage_job",
    "download_job",
    "view",
    "operate",
    "shell_commands",
    "byoc",
    "server-predeployed-flwr",
)


def authorization(coordinator: bool) -> dict[str, Any]:
    """Rights per role. Only `lead` (the operator) has any; code and shells are for nobody.

    At a silo it may start and end jobs; to look around there is the site's own business.
    """
    nothing = dict.fromkeys(RIGHTS, "none")
    lead = nothing | {"submit_job": "any", "manage_job": "n:submitter"}
    if coordinator:
        lead |= {"view": "any", "operate": "o:site"}
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": nothing,
            "org_admin": nothing,
            "lead": lead,
            "member": nothing,
        },
    }


def _common(classes: list[str], role: str) -> dict[str, Any]:
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": classes,
        "app_validator": {"path": VALIDATOR, "args": {"role": role}},
    }


def silo_resources() -> dict[str, Any]:
    passthrough = "nvflare.app_common.{0}s.passthrough_{0}.Passthrough{1}"
    return _common([EXECUTOR], "silo") | {
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            {
                "id": "resource_manager",
                "path": passthrough.format("resource_manager", "ResourceManager"),
                "args": {},
            },
            {
                "id": "resource_consumer",
                "path": passthrough.format("resource_consumer", "ResourceConsumer"),
                "args": {},
            },
            {
                "id": "process_launcher",
                "path": "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher",
                "args": {},
            },
        ],
    }


def coordinator_resources(kit: Path) -> dict[str, Any]:
    """Job store and snapshots live in the kit, not in the system's temporary folder.

    FLARE wants their full paths, so this is written again whenever the coordinator starts.
    """
    store = kit.resolve() / "store"
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return _common([CONTROLLER], "coordinator") | {
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": HEARTBEAT_TIMEOUT,
                "download_job_url": "",
                "admin_timeout": 30.0,  # a busy silo takes longer than the usual ten seconds
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": storage, "args": {"root_dir": str(store / "snapshots"), "uri_root": "/"}},
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {"max_jobs": 1, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0},
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": str(store / "jobs"), "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": storage},
            {
                "id": "process_launcher",
                "path": "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher",
                "args": {},
            },
        ],
    }


def communication(update_limit: float) -> dict[str, Any]:
    """Transport limits; sites never connect to one another directly."""
    return {
        "allow_adhoc_conns": False,
        "heartbeat_interval": HEARTBEAT,
        "max_message_size": int(update_limit * 1_000_000) + (1 << 20),
        "streaming_max_blob_size": int(update_limit * 1_000_000) + (1 << 20),
        "streaming_chunk_size": FRAME,
        "streaming_window_size": 2 * FRAME,
        "streaming_ack_interval": FRAME,
        "streaming_retry_wait": RETRY,
        "streaming_retry_timeout": PATIENCE,
        "streaming_ack_progress_timeout": PATIENCE,
        "streaming_read_timeout": PATIENCE,
    }


def write_policy(kit: Path, coordinator: bool, update_limit: float) -> None:
    """Put the policy into a kit as FLARE provisioned it, and take out what would widen it."""
    local, startup = kit / "local", kit / "startup"
    for pattern in ("*.default", "*.sample"):
        for surplus in local.glob(pattern):
            if not surplus.name.startswith("log_config"):
                surplus.unlink()
    for script in (*startup.glob("*.sh"), *startup.glob("*.ipynb"), *kit.glob("readme*")):
        script.unlink()
    write_json(local / "authorization.json", authorization(coordinator))
    write_json(local / "resources.json", coordinator_resources(kit) if coordinator else silo_resources())
    write_json(local / "comm_config.json", communication(update_limit))
    own = {"id": "entente", "path": SUPERVISOR if coordinator else DIAGNOSTICS, "args": {}}
    write_json(local / "entente__p_resources.json", {"components": [own]})
    if coordinator:
        operator = kit / "operator" / "startup" / "fed_admin.json"
        admin = json.loads(operator.read_text(encoding="utf-8"))
        admin["admin"]["authenticate_msg_timeout"] = (
            30.0  # FLARE's five seconds are too few on a busy machine
        )
        write_json(operator, admin)
        started = startup / "fed_server.json"
        settings = json.loads(started.read_text(encoding="utf-8"))
        settings["servers"][0]["admin_host"] = "127.0.0.1"
        settings["servers"][0]["service"]["scheme"] = GUARDED
        write_json(started, settings)
