"""The paper's own numbers (percent), typed in from its tables, to stand beside ours.

They belong to the original data sets; beside a simulated company or a replay they would mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Published(NamedTuple):
    ap: float
    auc: float


METHODS = ("non-fl", "fedavg", "fedopt", "fedprox", "fedavg-n", "entente-ub", "entente")

# One row per method, one (AP, AUC) per K, from K = 2 on.
_OPTC_EULER = """
69.96 98.76  69.96 98.76  69.96 98.76  69.96 98.76
33.69 95.78  65.72 98.62  66.41 97.00  75.19 98.66
66.62 98.37  67.24 99.19  70.09 98.26  72.19 98.84
64.29 98.07  72.46 99.25  73.79 97.30  71.38 98.25
70.41 99.13  69.91 99.29  78.40 98.97  71.87 98.78
77.14 99.50  82.95 99.68  84.96 99.69  78.12 99.24
74.60 99.41  83.29 99.76  80.82 99.79  82.03 99.79
"""
_LANL_EULER = """
0.89 97.93  0.89 97.93  0.89 97.93  0.89 97.93
0.71 98.08  0.10 98.08  0.22 98.41  0.57 98.79
0.65 97.87  0.60 98.80  0.60 99.08  0.01 84.45
0.72 97.90  0.01 81.98  0.19 98.84  0.01 81.64
0.51 96.85  0.62 97.97  0.41 96.80  0.53 96.68
0.70 97.07  0.65 97.95  0.82 97.01  0.65 97.33
0.77 98.92  0.87 97.68  0.72 97.00  0.67 97.16
"""
_LANL_JBEIL_TRANSDUCTIVE = """
96.47 97.51  96.47 97.51  96.47 97.51  96.47 97.51
88.54 91.85  66.77 72.98  50.94 51.84  59.64 65.11
59.67 64.64  82.18 85.81  60.75 67.35  72.58 80.06
61.00 67.71  67.29 74.32  70.89 77.87  76.52 82.02
71.37 77.46  88.96 91.14  61.92 68.93  63.30 70.16
95.40 96.47  77.47 82.98  90.29 91.47  85.46 86.22
94.43 96.25  87.47 88.80  84.10 85.09  81.05 87.70
"""
_LANL_JBEIL_INDUCTIVE = """
94.47 96.21  94.47 96.21  94.47 96.21  94.47 96.21
87.30 91.34  67.25 73.89  50.06 50.12  58.77 63.86
58.79 63.50  82.00 86.12  62.19 69.20  75.16 82.33
62.80 69.94  68.28 75.29  70.84 77.96  76.52 81.88
67.33 74.13  90.50 92.58  63.85 71.31  62.80 69.77
95.54 96.55  82.12 86.99  91.28 92.65  88.09 88.83
93.58 95.88  89.13 90.49  87.80 86.36  80.56 87.48
"""
_PIVOTING_JBEIL_TRANSDUCTIVE = """
96.26 97.05  96.26 97.05  96.26 97.05
82.07 88.70  68.81 75.70  81.19 87.26
95.81 97.02  81.14 87.37  90.28 93.97
81.01 87.34  80.72 86.71  58.62 62.56
74.14 80.64  93.38 96.21  95.79 97.50
93.55 96.00  89.72 93.91  94.78 96.24
95.54 97.21  90.98 94.68  96.40 97.77
"""
_PIVOTING_JBEIL_INDUCTIVE = """
95.92 96.87  95.92 96.87  95.92 96.87
83.59 89.46  71.05 78.06  80.80 86.99
96.21 97.44  85.70 90.87  91.65 94.94
80.58 87.17  81.53 87.40  58.08 61.99
72.82 78.81  87.62 92.41  92.68 95.84
91.46 94.86  87.53 92.58  90.96 93.97
92.88 95.85  89.05 93.58  93.19 96.09
"""


def _table(text: str) -> dict[tuple[str, int], Published]:
    found = {}
    for method, line in zip(METHODS, text.strip().splitlines(), strict=True):
        numbers = [float(word) for word in line.split()]
        for place in range(len(numbers) // 2):
            found[method, place + 2] = Published(numbers[2 * place], numbers[2 * place + 1])
    return found


EFFECTIVENESS: Mapping[tuple[str, str], Mapping[tuple[str, int], Published]] = {
    ("optc", "euler"): _table(_OPTC_EULER),
    ("lanl", "euler"): _table(_LANL_EULER),
    ("lanl", "jbeil-transductive"): _table(_LANL_JBEIL_TRANSDUCTIVE),
    ("lanl", "jbeil-inductive"): _table(_LANL_JBEIL_INDUCTIVE),
    ("pivoting", "jbeil-transductive"): _table(_PIVOTING_JBEIL_TRANSDUCTIVE),
    ("pivoting", "jbeil-inductive"): _table(_PIVOTING_JBEIL_INDUCTIVE),
}
"""(data set, detector) -> (method, K) -> AP and AUC."""

AUGMENTATION: Mapping[tuple[str, bool], Published] = {
    ("optc", False): Published(1.01, 43.80),
    ("optc", True): Published(83.29, 99.76),
    ("lanl", False): Published(0.11, 96.23),
    ("lanl", True): Published(0.72, 97.00),
}
"""(data set, 1-hop augmentation) -> AP and AUC; OpTC with K = 3, LANL with K = 4."""

REFERENCE_GRAPH: Mapping[tuple[str, bool, int], Published] = {
    ("optc", False, 3): Published(27.28, 94.12),
    ("optc", False, 5): Published(47.61, 96.26),
    ("optc", True, 3): Published(28.12, 97.61),
    ("optc", True, 5): Published(73.95, 97.88),
    ("lanl", False, 3): Published(0.46, 96.75),
    ("lanl", False, 5): Published(0.61, 97.10),
    ("lanl", True, 3): Published(0.85, 97.21),
    ("lanl", True, 5): Published(0.64, 98.80),
}
"""(data set, reference-graph weights, round) -> AP and AUC; OpTC with K = 3, LANL with K = 4."""


class Scale(NamedTuple):
    silos: int
    seconds: float
    ap: float
    auc: float
    cpu_mb: float


SCALE: Mapping[int, Scale] = {
    5: Scale(5, 138.51, 0.67, 97.16, 1521.21),
    10: Scale(9, 224.38, 0.77, 98.72, 866.13),
    20: Scale(15, 497.46, 1.05, 99.12, 522.87),
    50: Scale(35, 5111.43, 0.20, 97.99, 1341.30),
}
"""K -> silos that were not empty, training seconds, AP, AUC and memory per silo; LANL with Euler."""


def published(dataset: str, detector: str, method: str, k: int) -> Published | None:
    """The paper's AP and AUC in percent, where it has them for this very data set."""
    return EFFECTIVENESS.get((dataset, detector), {}).get((method, k))
