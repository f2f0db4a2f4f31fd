"""The lab's plug-ins are the product's with more switches, and the same as long as nobody turns one."""

from __future__ import annotations

import numpy as np
import pytest

from entente.config import aggregation_options, detector_options
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Contribution, Layout
from entente.federation.sketch import jaccard, sketch

LAYOUT = Layout(("w",), ((4,),), ("ENC",))
CURRENT = np.array([1, 1, 1, 1], dtype=np.float32)
STEPS = {"a": [0.4, 0, 0, 0], "b": [0, 0.4, 0, 0], "c": [0, 0, 0.4, 0]}


def one_round(told: dict[str, float], **options: object) -> np.ndarray:
    """The step that a round of three short updates gives."""
    rule = build(aggregation_options({"rule": "lab-entente", **options}), LAYOUT, 5.0)
    rule.begin(CURRENT)
    for silo, step in STEPS.items():
        rule.add(Contribution(silo, CURRENT + np.array(step, dtype=np.float32), told[silo]))
    return rule.finish() - CURRENT


@pytest.mark.parametrize("name", ["euler", "jbeil"])
def test_a_lab_detector_with_its_defaults_has_the_products_settings(name: str) -> None:
    lab, product = detector_options({"name": f"lab-{name}"}), detector_options({"name": name})
    assert lab.settings() == product.settings()


def test_the_labs_entente_with_its_defaults_has_the_products_settings() -> None:
    lab, product = aggregation_options({"rule": "lab-entente"}), aggregation_options({"rule": "entente"})
    assert lab.settings() == product.settings()
    assert aggregation_options({"rule": "lab-entente", "sketch": False}).settings().sketch is None


def test_contributions_of_mean_one_give_the_plain_mean_where_silos_are_alike() -> None:
    step = one_round({"a": 0.02, "b": 0.02, "c": 0.02}, normalised=True)
    np.testing.assert_allclose(step, [0.4 / 3] * 3 + [0], rtol=1e-5)
    assert np.linalg.norm(one_round({"a": 0.02, "b": 0.02, "c": 0.02})) < 0.2 * np.linalg.norm(step)


def test_a_relative_similarity_is_over_the_median_and_at_most_one() -> None:
    plain = {"a": 0.01, "b": 0.02, "c": 0.2}
    step = one_round(plain, similarity="relative")
    np.testing.assert_array_equal(step, one_round({"a": 0.5, "b": 1.0, "c": 1.0}))
    assert one_round(plain, similarity="relative", normalised=True)[0] < step[1] / 0.8


def test_relative_degrees_find_a_graph_like_its_larger_copy() -> None:
    """Stars of twenty and stars of eighty."""

    def stars(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        centre = np.repeat(np.arange(count) * (size + 1), size)
        return centre, centre + np.tile(np.arange(1, size + 1), count)

    alike = {
        labels: jaccard(sketch(*stars(10, 20), labels, 0), sketch(*stars(10, 80), labels, 0))
        for labels in ("log-degree", "relative-degree")
    }
    assert alike["relative-degree"] > alike["log-degree"]
