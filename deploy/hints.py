"""The name of this program in hints: the commands in them work as typed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program() -> str:
    """``bursar`` if the shell finds this program under that name, else its path to type here."""
    started = Path(sys.argv[0])
    if started.name != "bursar" or not started.exists():
        return "bursar"
    found = shutil.which("bursar")
    if found is not None and Path(found).resolve() == started.resolve():
        return "bursar"
    whole = Path(os.path.abspath(started))
    here = Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def hint(words: str) -> str:
    """A command to type, from its words after the program's name."""
    return f"{program()} {words}"
