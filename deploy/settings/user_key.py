"""ADAPTER: the key for names of users in the history."""

from __future__ import annotations

from pathlib import Path

from bus.user_names import UserNames
from deploy.errors import SettingsError


def user_names(path: Path) -> UserNames:
    """How names are written, and read. Raises SettingsError where the file is not there, or is no key."""
    try:
        return UserNames(path.read_bytes())
    except FileNotFoundError:
        raise SettingsError(
            f"labels.user_key: there is no {path}. Without it no name of a user is written: make a new key "
            f"(openssl rand -hex 32 > {path}), or take the setting away"
        ) from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"labels.user_key: {path}: {error}") from None
