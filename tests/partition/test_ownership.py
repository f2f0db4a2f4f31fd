"""To whom a host belongs."""

from __future__ import annotations

from entente.partition.ownership import BY_SUBNET, UNASSIGNED, Ownership

ASSIGNED = {
    "10.0.1.1": "porto",
    "10.0.1.2": "porto",
    "10.0.1.3": "lisbon",
    "10.0.2.1": "lisbon",
    "2001:db8::1": "lisbon",
    "printer": "porto",
}


def test_an_assigned_host_belongs_to_its_silo_whatever_the_policy() -> None:
    for unknown in (UNASSIGNED, BY_SUBNET, "lisbon"):
        assert Ownership(ASSIGNED, unknown).owners(ASSIGNED).tolist() == list(ASSIGNED.values())


def test_unknown_hosts_are_unassigned_unless_told() -> None:
    assert Ownership(ASSIGNED).owners(["10.0.1.9", "laptop"]).tolist() == [UNASSIGNED, UNASSIGNED]


def test_a_home_silo_takes_all_unknown_hosts() -> None:
    assert Ownership(ASSIGNED, "porto").owners(["10.0.2.9", "laptop"]).tolist() == ["porto", "porto"]


def test_by_subnet_an_unknown_address_belongs_to_the_silo_with_most_neighbours() -> None:
    asked = {
        "10.0.1.9": "porto",
        "10.0.2.9": "lisbon",
        "::ffff:10.0.2.9": "lisbon",
        "2001:db8::ffff": "lisbon",
        "2001:db8:1::1": UNASSIGNED,
        "10.0.3.1": UNASSIGNED,
        "laptop": UNASSIGNED,
    }
    assert Ownership(ASSIGNED, BY_SUBNET).owners(asked).tolist() == list(asked.values())


def test_without_a_partition_everything_belongs_to_the_one_silo_by_its_own_name() -> None:
    assert Ownership.whole("porto").owners(["10.0.2.9", "laptop"]).tolist() == ["porto", "porto"]


def test_unassigned_is_a_silo_only_where_a_table_says_so() -> None:
    assert not Ownership(ASSIGNED).has(UNASSIGNED)
    assert Ownership({"a": UNASSIGNED}).has(UNASSIGNED)
