"""Reads the settings of this process: options, environment and file. An error names the wrong one.

A message names the option, the variable, or the file and its line. Values are not repeated, since they may be secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableVariable

from deploy.errors import SettingsError
from deploy.settings.addresses import SHORT_FORMS, default_data
from deploy.settings.environment import environment
from deploy.settings.file import SettingsFile, read_settings_file
from deploy.settings.kubeconfigs import check
from deploy.settings.shape import Settings

if TYPE_CHECKING:
    from bus.kube import client


def load(options: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """The settings of this process. ``options`` are nested as the model is; None in them means not given.

    Raises SettingsError naming the option, variable, or file and line.
    """
    named = config or (Path(text) if (text := environment().get("BURSAR_CONFIG")) else None)
    Settings.file = read_settings_file(named) if named is not None else None
    _refuse_unknown_variables()
    given = {name: value for name, value in (options or {}).items() if value is not None}
    try:
        if not ("data" in given or _says_data()):
            given["data"] = default_data()
        settings = Settings(**given)
        history = settings.history
        if history.keep_us is not None and history.segment_events and not settings.seals:
            raise SettingsError(
                "history.keep: a ledger on PostgreSQL needs history.folder, a bucket, or a folder that all processes of Bursar have"
            )
        data = settings.data.expanduser().absolute()
        return settings.model_copy(update={"data": data})
    except ValidationError as error:
        raise _explained(error, Settings.file) from None
    except UnreadableVariable as error:
        raise _unreadable(error) from None
    finally:
        Settings.file = None


def _says_data() -> bool:
    return bool(environment().get("BURSAR_DATA")) or (
        Settings.file is not None and "data" in Settings.file.values
    )


def cluster_access(settings: Settings) -> client.Access | None:
    """The cluster's address; None without one. Opens no connection.

    Raises SettingsError for an absent configured kubeconfig or context.
    """
    check(environment(), settings.cluster.kubeconfig, settings.cluster.context)
    # Importing the Kubernetes client takes half a second; questions to the ledger should not pay for it.
    from bus.kube import client

    return client.discover(environment(), settings.cluster.kubeconfig, settings.cluster.context)


def _refuse_unknown_variables() -> None:
    parts = {name for name in Settings.model_fields if name != "data"}
    for name in environment():
        if name.upper().startswith("BURSAR_") and "__" in name:
            part = name[len("BURSAR_") :].lower().partition("__")[0]
            if part not in parts:
                raise SettingsError(f"{name}: there is no such setting")


def _unreadable(error: UnreadableVariable) -> SettingsError:
    """The error for the variable of a list or mapping without valid JSON. The library names its part alone."""
    part = str(error).partition('"')[2].partition('"')[0]
    for name, value in environment().items():
        if name.upper().startswith(f"BURSAR_{part.upper()}") and value:
            try:
                json.loads(value)
            except ValueError:
                if "__" not in name or value[0] in "[{" or name.upper() in _listed():
                    return SettingsError(
                        f'{name}: not JSON: a list is written ["a", "b"], a mapping {{"a": "b"}}'
                    )
    return SettingsError(f"a variable of {part} is not JSON")


def _listed() -> set[str]:
    """The variables with lists or mappings."""
    # Read from the source of the models: only where a variable is wrong.
    from deploy.settings.reference import keys

    return {
        name
        for key in keys()
        if key.takes.startswith(("list", "mapping"))
        for name in key.variables
    }


def _explained(error: ValidationError, file: SettingsFile | None) -> SettingsError:
    """The first problem, with the place it came from. Values are not repeated: they may be secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = tuple(str(part) for part in first["loc"])
    text = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"]
    text = text.removeprefix("Value error, ")
    # The environment is stronger than the file, so a wrong value of both is the environment's.
    names = {name.upper() for name in environment()}
    short = {full.upper(): name.upper() for name, full in SHORT_FORMS.items()}
    variable = "BURSAR_" + "__".join(place).upper()
    for name in (variable, short.get(variable, variable)):
        if name in names:
            return SettingsError(f"{name}: {text}")
    if file is not None and (line := file.line(place)):
        return SettingsError(f"{file.path}, line {line}: {'.'.join(place)}: {text}")
    return SettingsError(f"{'.'.join(place)}: {text}")
