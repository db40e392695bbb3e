"""The duty-cycle trace genai-2026: GPU use of 143 containers over 23 hours, as looks.

One row is a percentage, a second, and a container. A look is active when its GPU works by the reader's own threshold.
"""

import csv
import io
import os
import tarfile
from pathlib import Path

from bus.clock import SECOND_US
from bus.notebooks.gpu import BUSY_PERMILLE
from reactors.culling.simulate import NotebookLook

SHARED = Path(os.environ.get("BURSAR_SHARED") or Path(__file__).parents[4] / "shared")
TRACE = SHARED / "traces" / "genai-2026" / "pod_gpu_duty_cycle_anon.tar.gz"


def looks():
    """All samples as looks, in the trace's order, which is by time for each container."""
    with tarfile.open(TRACE) as archive:
        (name,) = archive.getnames()
        text = archive.extractfile(name).read().decode()
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        at_us = int(float(row["timestamp_anon"])) * SECOND_US
        is_busy = int(float(row["value"]) * 10) >= BUSY_PERMILLE
        found.append(NotebookLook(row["container_ip"], at_us, at_us if is_busy else None))
    return found
