"""A class name means one thing in the product."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PRODUCT = Path(__file__).parents[1] / "src" / "entente"


def test_no_class_name_occurs_twice_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PRODUCT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
