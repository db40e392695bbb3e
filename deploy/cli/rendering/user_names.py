"""Names of users under a key in the history, translated for people and programs.

Without the key (it was destroyed), answers show tokens: each still is one user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.user_names import UserNames

_names: UserNames | None = None


def names_by(key: Path | None) -> None:
    """Use the names under this key from now on. Raises SettingsError for an invalid key."""
    global _names
    _names = None
    if key is not None and key.exists():
        from deploy.settings.user_key import user_names

        _names = user_names(key)


def token(name: str | None) -> str | None:
    """The ledger's form of a user's name; `unassigned` stays."""
    return name if name in (None, "unassigned") or _names is None else _names.sealed(name)


def opened(value: Any) -> Any:
    """A value of an answer, with names for tokens wherever they stand in it."""
    if _names is None:
        return value
    if isinstance(value, str):
        return _names.opened(value)
    if isinstance(value, Mapping):
        return {key: opened(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(opened, value))
    return value
