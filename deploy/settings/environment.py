"""The only reader of the environment. What its variables mean is said in :mod:`deploy.settings.shape`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bus import object_store


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


# Places in a store are named by ledgers, wherever one is read.
object_store.told_by(environment)
