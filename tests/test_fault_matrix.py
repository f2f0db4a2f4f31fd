"""docs/fault-matrix.md names tests; they are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "fault-matrix.md"


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "what"]


def test_every_row_has_a_promise_and_names_a_test() -> None:
    assert len(rows()) >= 40
    for row in rows():
        assert len(row) == 3, row
        assert row[1], row
        assert re.fullmatch(r"(`tests/[\w/]+\.py::test_\w+` ?)+", row[2]), row


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))
    missing = [f"{file}::{name}" for file, name in named if name not in names_in(file)]
    assert not missing


SUITES = (
    "tests/federation/test_liars.py",
    "tests/federation/test_faults.py",
    "tests/deployment/test_guard.py",
    "tests/deployment/test_flare_*.py",
    "tests/logs/test_edge_directory.py",
)
"""Files whose tests are what was once found or feared."""
ORDINARY = {
    # of faults whose row names another test, or where nothing is wrong
    "test_a_kind_of_megabytes_makes_a_short_refusal",
    "test_the_limit_can_be_switched_off_for_the_papers_tables",
    "test_the_run_comes_to_its_end",
    "test_joins_and_departures_are_recorded_once",
    # what a federation gives
    "test_three_silos_give_the_model_of_the_in_process_loop_bit_for_bit",
    "test_flares_simulator_gives_the_same_bits_too",
    "test_every_silo_has_the_model_with_a_threshold_of_its_own_and_can_detect",
    "test_identity_rows_that_stay_at_home_are_the_same_bits_and_never_reach_the_coordinator",
    "test_packets_of_the_exchange_travel_over_flare",
    "test_the_rounds_of_a_federation_can_be_tracked",
    "test_mlflow_has_the_rounds_and_the_model_of_a_federation",
    "test_status_and_audit_tell_what_happened",
    # kits and terms as they should be
    "test_the_template_is_a_federation_file",
    "test_a_quorum_is_rounded_up",
    "test_provisioning_again_adds_a_silo_and_renews_only_what_was_named",
    "test_without_flare_the_error_names_the_extra",
    "test_our_own_job_passes_the_gate",
    "test_an_experiment_travels_without_paths_and_keeps_its_name_when_resumed",
    "test_a_fresh_kit_passes_the_pre_flight_check",
    "test_the_operators_name_is_what_flare_calls_an_address",
}
"""Their tests that the page leaves out."""


def suite() -> set[str]:
    files = [str(file.relative_to(ROOT)) for pattern in SUITES for file in ROOT.glob(pattern)]
    return {name for file in files for name in names_in(file) if name.startswith("test_")}


def test_every_fault_test_is_in_the_matrix() -> None:
    """Nothing that was found is left out of the page, and nothing is excused that is on it or is gone."""
    told = set(re.findall(r"::(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert suite() - told == ORDINARY
