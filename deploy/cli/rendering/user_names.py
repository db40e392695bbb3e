"""Names of users that the history has under a key, as people and programs ask for them and read them.

Who has no key, as it was destroyed, reads tokens: each still stands for one user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bus.user_names import UserNames

_names: UserNames | None = None


def names_by(key: Path | None) -> None:
    """What is asked and answered from now on is about the names under this key. Raises SettingsError where it is none."""
    global _names
    _names = None
    if key is not None and key.exists():
        from deploy.settings.user_key import user_names

        _names = user_names(key)


def token(name: str | None) -> str | None:
    """What stands in the ledger for the name of a user; `unassigned` is none."""
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
