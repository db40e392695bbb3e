"""Configured kubeconfig files: a wrong name is an error, never another cluster, and never the recording."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.errors import SettingsError
from deploy.settings.near import absent

#: Largest kubeconfig in bytes.
LARGEST = 16 * 1024 * 1024


def check(environment: Mapping[str, str], kubeconfig: str, context: str) -> None:
    """Raises SettingsError for an absent kubeconfig, or for a context in none of the files.

    ``kubeconfig`` and ``context`` are those of the settings. Of several files in KUBECONFIG some may be
    absent, as for kubectl, but not all.
    """
    listed = environment.get("KUBECONFIG", "")
    paths = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    if kubeconfig:
        paths = [Path(kubeconfig).expanduser()]
        _require(paths, "cluster.kubeconfig", kubeconfig)
    elif paths:
        _require(paths, "KUBECONFIG", listed)
    elif environment.get("HOME"):
        paths = [Path(environment["HOME"]) / ".kube" / "config"]
    there = [path for path in paths if path.is_file()]
    if context or there:
        _check_context(there, context)


def _require(paths: list[Path], setting: str, named: str) -> None:
    if not any(path.is_file() for path in paths):
        raise SettingsError(
            f"{setting}: there is no file {named}; without a kubeconfig the recording is played: unset it, or bursar up --recording"
        )


def _check_context(paths: list[Path], context: str) -> None:
    known, current = set[str](), ""
    for path in paths:
        read = _read(path)
        known |= set(_names(read.get("contexts")))
        current = current or str(read.get("current-context") or "")
    files = ", ".join(map(str, paths)) or "no kubeconfig"
    if context and context not in known:
        raise SettingsError(f"cluster.context: {absent('context', context, known)} ({files})")
    if not context and current not in known:
        name = (
            f"its current-context {current[:80]!r} is none of them"
            if current
            else "it has no current-context"
        )
        there = ", ".join(sorted(known)[:5]) or "it has no contexts"
        raise SettingsError(
            f"{files}: {name}; set cluster.context to one of: {there}; or bursar up --recording"
        )


def _read(path: Path) -> dict[str, Any]:
    """A kubeconfig as written. Its content is never repeated: it holds tokens."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        found = yaml.safe_load(raw[:LARGEST])
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise SettingsError(f"{path}: no kubeconfig: not YAML") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{path}: no kubeconfig: no mapping")
    return found


def _names(contexts: Any) -> Iterator[str]:
    for one in contexts if isinstance(contexts, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            yield one["name"]
