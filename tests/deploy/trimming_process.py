"""Trims a running embedded bus in a process that is killed when it comes to a label, or ends: ``DATA LABEL``."""

import asyncio
import os
import signal
import sys

from bus import crashpoints
from tests.deploy.trimming import opened, settings_of, trimmed


def hook(label):
    if label == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    crashpoints.install(hook)
    settings = settings_of(sys.argv[1])
    with opened(settings) as store:
        asyncio.run(trimmed(settings, store))
