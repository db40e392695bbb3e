"""Manifests in people's files, YAML or JSON, one document or many, as the objects of an API server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.errors import SettingsError

#: Largest file; an API server takes no object above 1.5 MiB.
LARGEST = 64 * 1024 * 1024

Json = dict[str, Any]


def manifests(path: str) -> list[Json]:
    """The objects in a file (``-``: stdin), lists taken apart. Raises SettingsError naming file and document."""
    text = _text(path)
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = str(error).replace("\n", " ")
        raise SettingsError(f"{path}: not YAML or JSON: {where}") from None
    found = [one for document in documents if document is not None for one in _objects(document)]
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict) or not all(
            type(one.get(k)) is str for k in ("apiVersion", "kind")
        ):
            raise SettingsError(f"{path}: object {number} has no apiVersion and kind")
        for part in ("metadata", "spec"):
            if not isinstance(one.get(part, {}), dict):
                raise SettingsError(f"{path}: {part} of object {number} is no map")
    if not found:
        raise SettingsError(f"{path}: there is no object in it")
    return found


def _text(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read(LARGEST + 1) if path == "-" else Path(path).read_bytes()
        if len(raw) > LARGEST:
            raise SettingsError(f"{path}: larger than {LARGEST // 2**20} MiB")
        return raw.decode()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8") from None


def _objects(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
        items = document.get("items")
        if isinstance(items, list):
            yield from items
            return
    yield document
