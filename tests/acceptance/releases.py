"""The release before this one, from git."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

#: This checkout.
HERE = Path(__file__).parents[2]
#: The version to upgrade from before the first tag: the last commit of schema 0025. An earlier one reads pods without a segment in
#: a form of its own, so its reports fail beside a newer ledger that has such a pod.
FIRST = "d2af388b"


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
