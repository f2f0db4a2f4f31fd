"""Code that nothing but tests uses: `python tools/unused.py`, part of `make lint`.

Plug-ins are used through entry points, so that their classes are no finding; what else is used in a way that
vulture cannot see is listed below, each group with its reason.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).parents[1]
DECORATORS = [
    "@app.*",
    "@router.*",
    "@*.command*",
    "@*.callback*",
    "@claims",
    "@model_validator",
    "@field_validator",
]
NAMES = {
    "pydantic reads it": ["model_config", "moved"],
    "FLARE calls it": [
        *("start_controller", "stop_controller", "control_flow", "handle_event", "_task_check_period"),
        *("SiloExecutor", "Supervisor", "ConfigurationOnly", "DiagnosticsOff", "_build_write_cert_pair"),
        *("supported_transports", "listen", "read_frame", "process_frame", "last_activity"),
    ],
    "a runner that a cell names as text": ["measure_*"],
    "torch calls it": ["forward"],
    "socketserver reads or calls it": [
        *("allow_reuse_address", "block_on_close", "request_queue_size", "service_actions"),
    ],
    "the http server calls it": ["do_GET", "do_POST", "log_message", "protocol_version", "server_version"],
    "an attribute or argument that a library reads": [
        "trace",
        "justify",
        "total_tokens",
        "row_factory",
        "daemon_threads",
        "addr",
    ],
    "asyncio or prometheus calls it": ["datagram_received", "collect"],
    "one of three accessors of scored edges": ["silo_names"],
    "Python calls it": ["__getattr__", "__dir__", "__class__"],
    "what users of the library and scikit-learn call": [
        *("n_features_in_", "offset_", "score_samples", "fit_predict", "set_params"),
    ],
    "named by the example's own entry points": ["BusySource", "Sentences"],
    "read from a table or a document": ["suppressed_by"],
    "templates of the console read it": [
        *("by_silo", "globals", "role_said", "target_count", "source_count"),
    ],
}
TABLES = ("**/records.py", "**/metrics.py", "**/steps.py", "**/options.py")
"""Fields of stored records and of settings are read from files, not from code."""


def entry_points() -> list[str]:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    return [target.rpartition(":")[2] for group in groups.values() for target in group.values()]


def commands() -> list[str]:
    """Each command is a function that is named after its file."""
    return [path.stem for path in (ROOT / "src/entente/cli").glob("*.py")]


def main() -> int:
    names = [name for group in NAMES.values() for name in group]
    vulture = Vulture(ignore_names=[*names, *entry_points(), *commands()], ignore_decorators=DECORATORS)
    vulture.scavenge([str(ROOT / "src"), str(ROOT / "benchmarks"), str(ROOT / "examples")])
    found = [
        item
        for item in vulture.get_unused_code(min_confidence=60)
        if not (item.typ in ("variable", "attribute") and any(item.filename.match(t) for t in TABLES))
    ]
    for item in found:
        where = item.filename.relative_to(ROOT)
        sys.stdout.write(f"{where}:{item.first_lineno}: unused {item.typ} {item.name!r}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
