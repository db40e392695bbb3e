"""The command line: ``bursar``. One file for each group of commands; their common parts are in ``options``."""

from deploy.cli.program.program import main

__all__ = ["main"]
