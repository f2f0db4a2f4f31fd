"""The pairwise-masked sum: right in total, silent in its parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import FederationError, RefusedError
from entente.privacy.secure_sum import MODULUS, Mask, check_key, total

counts = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(0, MODULUS - 1), min_size=2, max_size=6)


def masked(values: dict[str, int]) -> dict[str, int]:
    masks = {name: Mask() for name in values}
    keys = {name: mask.public_key for name, mask in masks.items()}
    return {name: masks[name].apply(value, name, keys) for name, value in values.items()}


@given(values=counts)
@settings(max_examples=30, deadline=None)
def test_masks_cancel_in_the_total_for_any_names_and_counts(values: dict[str, int]) -> None:
    assert total(masked(values).values()) == sum(values.values()) % MODULUS


def test_a_masked_count_looks_like_any_64_bit_number() -> None:
    seen = [masked({"a": 1, "b": 2, "c": 3})["a"] for _ in range(64)]
    assert len(set(seen)) == 64
    ones = sum(value.bit_count() for value in seen)
    assert 0.45 < ones / (64 * 64) < 0.55


def test_without_one_silo_the_rest_of_the_sum_is_noise() -> None:
    values = masked({"a": 10, "b": 20, "c": 30})
    del values["c"]
    assert total(values.values()) > 10**9


def test_silos_shown_different_key_lists_give_a_sum_of_noise() -> None:
    masks = {name: Mask() for name in "abc"}
    keys = {name: mask.public_key for name, mask in masks.items()}
    swapped = keys | {"c": Mask().public_key}
    values = [
        masks["a"].apply(1, "a", swapped),
        masks["b"].apply(2, "b", keys),
        masks["c"].apply(3, "c", keys),
    ]
    assert total(values) != 6


def test_a_key_masks_one_count_only() -> None:
    """Twice, towards different silos, the difference of two sums would be a count."""
    mask, other = Mask(), Mask()
    keys = {"a": mask.public_key, "b": other.public_key}
    mask.apply(5, "a", keys)
    with pytest.raises(FederationError, match="new key"):
        mask.apply(5, "a", keys)


def test_a_count_never_travels_unmasked_by_mistake() -> None:
    mask = Mask()
    with pytest.raises(FederationError, match="no other silo"):
        mask.apply(5, "a", {"a": mask.public_key})
    mask = Mask()
    with pytest.raises(FederationError, match="does not hold the key"):
        mask.apply(5, "a", {"b": Mask().public_key, "c": Mask().public_key})


@pytest.mark.parametrize("key", ["", "zz" * 32, "ab" * 31, "AB" * 32, "00" * 32, "ab" * 33])
def test_a_malformed_key_is_refused(key: str) -> None:
    with pytest.raises(RefusedError, match="public key"):
        check_key(key)


def test_a_key_of_low_order_agrees_on_no_secret() -> None:
    mask = Mask()
    low = "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"
    with pytest.raises(FederationError, match="no secret"):
        mask.apply(5, "a", {"a": mask.public_key, "b": low})
