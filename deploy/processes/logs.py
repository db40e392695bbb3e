"""The start of every long-running command: its log, by the settings."""

from __future__ import annotations

import faulthandler
import sys
from typing import TYPE_CHECKING

from deploy.cli.rendering.output import say_by
from deploy.logs import begin, tell

if TYPE_CHECKING:
    from deploy.settings.shape import Settings


def log_as_set(settings: Settings) -> None:
    """Write logs and messages in the configured form; after a crash in a library, the place of the crash."""
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    begin(settings.log.format)
    say_by(tell)
