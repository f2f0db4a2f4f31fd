"""The lab's plug-ins are the product's with more switches, and the same as long as nobody turns one."""

from __future__ import annotations

import pytest

from entente.config import aggregation_options, detector_options


@pytest.mark.parametrize("name", ["euler", "jbeil"])
def test_a_lab_detector_with_its_defaults_has_the_products_settings(name: str) -> None:
    lab, product = detector_options({"name": f"lab-{name}"}), detector_options({"name": name})
    assert lab.settings() == product.settings()


def test_the_labs_entente_with_its_defaults_has_the_products_settings() -> None:
    lab, product = aggregation_options({"rule": "lab-entente"}), aggregation_options({"rule": "entente"})
    assert lab.settings() == product.settings()
    assert aggregation_options({"rule": "lab-entente", "sketch": False}).settings().sketch is None
