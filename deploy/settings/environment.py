"""The only reader of the settings in the environment. Its variables are explained in :mod:`deploy.settings.shape`."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ
