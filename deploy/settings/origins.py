"""The source of each setting in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import SecretStr

from deploy.settings.addresses import SHORT_FORMS, masked
from deploy.settings.environment import environment
from deploy.settings.file import SettingsFile, read_settings_file
from deploy.settings.reference import Key, keys, text
from deploy.settings.shape import Settings


class Origin(msgspec.Struct, frozen=True):
    """A setting, its value in a form to show, and its source."""

    key: Key
    shown: str
    origin: str


def origins(
    settings: Settings, options: Mapping[str, Any], config: Path | None = None
) -> list[Origin]:
    """All settings, in the order of the reference. ``options`` and ``config`` are those behind ``settings``."""
    named = config or (Path(variable) if (variable := environment().get("BURSAR_CONFIG")) else None)
    file = read_settings_file(named) if named is not None else None
    return [Origin(key, _shown(key, settings), _origin(key, options, file)) for key in keys()]


def _shown(key: Key, settings: Settings) -> str:
    value: Any = settings
    for name in key.place:
        value = getattr(value, name)
    if isinstance(value, SecretStr) and key.place[0] not in ("ledger", "bus"):
        return "(set, not shown)"
    return masked(text(value)) if key.is_secret else text(value)


def _origin(key: Key, options: Mapping[str, Any], file: SettingsFile | None) -> str:
    given: Any = options
    for name in key.place:
        given = given.get(name) if isinstance(given, Mapping) else None
    if given is not None:
        return f"option --{key.place[0]}"
    there = {name.upper(): name for name in environment()}
    # The long form is the stronger one.
    for name in reversed(key.variables):
        if name in there:
            return f"variable {there[name]}"
    for length in range(len(key.place) - 1, 0, -1):
        name = "BURSAR_" + "__".join(key.place[:length]).upper()
        if name in there and name.lower() not in SHORT_FORMS:
            # The variable of a whole part is JSON, and was read already.
            if _says(json.loads(environment()[there[name]]), key.place[length:]):
                return f"variable {there[name]}"
    if file is not None:
        for length in range(len(key.place), 0, -1):
            if (line := file.lines.get(key.place[:length])) and _says(file.values, key.place):
                return f"{file.path}, line {line}"
    return "default"


def _says(values: Any, place: tuple[str, ...]) -> bool:
    for name in place:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True
