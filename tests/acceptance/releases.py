"""The release before this one, from git."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

#: This checkout.
HERE = Path(__file__).parents[2]
#: What is upgraded from before the first tag: the last commit of the schema 0021, which knows that newer ones may only add.
FIRST = "ac07362"


def checkout(folder, commit=None):
    """A commit in ``folder``, else the newest tag, or what `BURSAR_UPGRADE_FROM` names. The test is left out where git has none."""
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^").stdout.decode().strip()
    wanted = commit or os.environ.get("BURSAR_UPGRADE_FROM") or tag or FIRST
    archive = _git("archive", wanted)
    if archive.returncode:
        pytest.skip(f"git has no {wanted} to upgrade from: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def _git(*arguments):
    return subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True)
