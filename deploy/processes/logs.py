"""What every command that runs on begins with: its log, as the settings want it."""

from __future__ import annotations

import faulthandler
import sys
from typing import TYPE_CHECKING

from deploy.cli.rendering.output import say_by
from deploy.logs import begin, tell

if TYPE_CHECKING:
    from deploy.settings.shape import Settings


def log_as_set(settings: Settings) -> None:
    """Write logs, and what is said to people, in the form that is set; and where a library crashed, if one does."""
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    begin(settings.log.format)
    say_by(tell)
