"""Which host belongs to which silo. The package itself can be called: `entente.partition(events, ...)`."""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The public function has the room's own name, and a package is an attribute of `entente` once
    imported.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from entente.partition.split import partition

        return partition(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
