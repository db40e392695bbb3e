"""The import contracts of ``pyproject.toml`` hold: one direction, few adapters. Source: docs/architecture.md."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.product import ROOT


def test_the_import_contracts_are_kept():
    lint = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)

    assert 0 == run.returncode, run.stdout[-3000:] + run.stderr[-1000:]
