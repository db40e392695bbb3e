"""Stops a process without ending it, and returns when it does stand still."""

import os
import signal
import time
from pathlib import Path


def pause(pid: int, seconds: float = 10) -> None:
    """SIGSTOP, and the wait until all its threads obey: on a busy machine one of them is told much later.

    Where the system does not tell (no /proc) nothing is waited for.
    """
    os.kill(pid, signal.SIGSTOP)
    ends = time.monotonic() + seconds
    while not all(_is_still(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        if time.monotonic() > ends:
            raise TimeoutError(f"process {pid} runs on, {seconds} s after SIGSTOP")
        time.sleep(0.005)


def _is_still(stat: Path) -> bool:
    try:
        text = stat.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    # The state comes behind the name, which stands in brackets and may hold brackets itself.
    return text.rpartition(")")[2].split()[0] in "TtZX"
