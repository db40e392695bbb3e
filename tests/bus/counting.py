"""The cost of a reader in steps, which are the same on every machine."""

import sys
from contextlib import contextmanager


@contextmanager
def counted_calls():
    """The number of calls of functions written in C."""
    calls = [0]

    def count(frame, event, argument):
        calls[0] += event == "c_call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
