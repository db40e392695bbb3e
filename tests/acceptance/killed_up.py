"""`bursar up` that a test kills at a label: `python -m tests.acceptance.killed_up FOLDER up --data …`.

A file of the folder with a label's name arms it: the next time that the process comes to the label, it renames the file to
`<label>.hit` and kills whom the file names: itself (`reactor`, and with it the bus, which does not outlive it), its `bus`, or the
API server by the id that stands behind.
"""

import os
import signal
import sys
from pathlib import Path

from bus import crashpoints
from deploy.cli import main


def arm(folder, label, victim, pid=0):
    """The next time that the process comes to ``label``, ``victim`` is killed."""
    draft = folder / f"{label}.draft"
    draft.write_text(f"{victim} {pid}")
    draft.rename(folder / label)


def was_hit(folder, label):
    """Whether the label that was armed was reached; once."""
    hit = folder / f"{label}.hit"
    if not hit.exists():
        return False
    hit.unlink()
    return True


def _hook(folder):
    def hook(label):
        try:
            # Read before: whoever waits for the new name takes it away at once.
            victim, pid = (folder / label).read_text().split()
            os.rename(folder / label, folder / f"{label}.hit")
        except FileNotFoundError:
            return
        own = os.getpid()
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        for one in {"reactor": [own], "bus": children}.get(victim, [pid]):
            os.kill(int(one), signal.SIGKILL)

    return hook


if __name__ == "__main__":
    crashpoints.install(_hook(Path(sys.argv.pop(1))))
    main()
