"""Facts about the rights of reactors: their policies and the global pause. Reactors take both from the history.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from bus.events.vocabulary import Fact

#: ``shadow``: decide and record, do not act.
Mode = Literal["off", "shadow", "on"]


def switch(value: object) -> object:
    """A mode as somebody wrote it: YAML reads a bare ``on``, ``yes`` or ``true`` as true, and ``off`` as false."""
    words = {"true": "on", "yes": "on", "on": "on", "false": "off", "no": "off", "off": "off"}
    if isinstance(value, bool):
        return "on" if value else "off"
    return words.get(value.lower(), value) if isinstance(value, str) else value


class PolicyChanged(Fact, frozen=True, kw_only=True):
    """A reactor goes by this policy from now on. Key: the reactor's name.

    ``policy`` is all of it, defaults included, so that another program's defaults change nothing. ``digest``: SHA-256
    of mode and policy as canonical JSON, hex.
    """

    wire_type: ClassVar[str] = "policy.changed"

    reactor: str
    mode: Mode
    policy: dict[str, Any]
    digest: str
    #: The person or the settings file behind it.
    author: str


class PauseChanged(Fact, frozen=True, kw_only=True):
    """A global pause of all reactors begins or ends. Restores requested by a person still run. Key: ``reactors``."""

    wire_type: ClassVar[str] = "pause.changed"

    is_paused: bool
    author: str
    reason: str = ""
