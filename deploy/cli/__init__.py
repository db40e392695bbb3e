"""The command line: ``bursar``. One file for each group of commands; what they have in common is in ``options``."""

from deploy.cli.program.program import main

__all__ = ["main"]
