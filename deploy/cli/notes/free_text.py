"""Free text of an order where names of users stand under a key: the text itself does not."""

from __future__ import annotations

from deploy.cli.options import CommandContext
from deploy.cli.rendering.output import say


def warn_of_names(asked: CommandContext, text: str) -> None:
    """Warn that a text is recorded as it is, where names of users are not."""
    if text and asked.settings.labels.user_key is not None:
        say(
            "warning: the reason is recorded in clear text, outside labels.user_key: it should name no user"
        )
