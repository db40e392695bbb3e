"""`bursar` with a clock that a test sets: `python shifted.py FILE watch …`.

The file holds the seconds that are added to this process's clock; none, or an empty one, adds nothing.
"""

import sys
from pathlib import Path

from bus.clock import SystemClock
from deploy.cli import main


def _shift(file):
    true = SystemClock.now_us

    def now_us(self):
        try:
            return true(self) + 1_000_000 * int(file.read_text() or 0)
        except FileNotFoundError:
            return true(self)

    SystemClock.now_us = now_us


if __name__ == "__main__":
    _shift(Path(sys.argv.pop(1)))
    main()
