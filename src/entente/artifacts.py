"""Files written whole or not at all: JSON, arrays (safetensors) and text; never pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.errors import StorageError

Arrays = dict[str, NDArray[Any]]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes `path`'s place, on failure it is gone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(
            f"cannot be written ({error.strerror or error})",
            where=path,
            remedy="Check free space and permissions; the former file is untouched.",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"is not readable JSON ({error})", where=path) from error


def array_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Named arrays as safetensors; the same arrays give the same bytes."""
    from safetensors.numpy import save

    # safetensors takes an array's bytes as they lie in memory, whatever its strides say.
    return bytes(save({name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}))


def arrays_of(data: bytes) -> Arrays:
    """The arrays that `array_bytes` was given; ValueError if they are damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"not safetensors: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(array_bytes(arrays))


def read_arrays(path: Path) -> Arrays:
    try:
        return arrays_of(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError(f"is not a readable safetensors file ({error})", where=path) from error
