"""Epsilon for the run that was made."""

from __future__ import annotations

import builtins

import pytest

from entente.errors import MissingExtraError
from entente.privacy.accountant import Accountant

dp_accounting = pytest.importorskip("dp_accounting")


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (1.0, 30), (4.0, 30), (0.2, 30)])
def test_epsilon_is_exact_and_never_above_the_renyi_accountants_bound(sigma: float, rounds: int) -> None:
    ours = Accountant()
    for _ in range(rounds):
        ours.spend(sigma)
    renyi = dp_accounting.rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(sigma), rounds)
    bound = renyi.get_epsilon(1e-5)
    assert 0.7 * bound <= ours.epsilon(1e-5) <= bound * (1 + 1e-6)


def test_epsilon_agrees_with_the_privacy_loss_distribution() -> None:
    ours = Accountant()
    for _ in range(10):
        ours.spend(2.0)
    pld = dp_accounting.pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(2.0), 10)
    assert ours.epsilon(1e-5) == pytest.approx(pld.get_epsilon(1e-5), rel=1e-3)


def test_nothing_released_costs_nothing() -> None:
    assert Accountant().epsilon(1e-5) == 0.0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"entente\[privacy\]"):
        Accountant().epsilon(1e-5)
