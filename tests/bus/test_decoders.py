"""Threads decode classes that are whole, whoever used them first."""

import subprocess
import sys
import threading
import types
from pathlib import Path

import msgspec
import pytest

from bus.decoders import prepare

ROOT = Path(__file__).parents[2]
#: Classes of which one has another, that takes long to build, before what is decoded.
CLASSES = """
from __future__ import annotations
import msgspec
class Large(msgspec.Struct):
    {fields}
class Inner(msgspec.Struct):
    large: Large | None = None
    x: int = 0
class First(msgspec.Struct):
    a: list[Inner] = []
class Second(msgspec.Struct):
    a: list[Inner] = []
"""


def classes(number):
    """The two that threads decode, new ones for each number."""
    module = types.ModuleType(f"decoded_{number}")
    sys.modules[module.__name__] = module
    fields = "\n    ".join(
        f"f{i}: dict[str, tuple[int, list[float]]] | None = None" for i in range(30)
    )
    exec(CLASSES.format(fields=fields), module.__dict__)
    return module.First, module.Second


def race(rounds, ready):
    """Have two threads decode classes that share one, which nobody decoded before."""
    sys.setswitchinterval(1e-6)
    for number in range(rounds):
        both = classes(number)
        ready()
        start = threading.Barrier(2)

        def work(kind, start=start):
            start.wait()
            assert msgspec.json.decode(b'{"a":[{"x":1}]}', type=kind).a[0].x == 1

        threads = [threading.Thread(target=work, args=(one,)) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def raced(rounds, ready):
    code = f"from tests.bus.test_decoders import *; race({rounds}, {ready})"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode


def test_what_is_built_before_threads_share_it_is_whole():
    assert raced(200, "prepare") == 0


def test_msgspec_shows_threads_what_is_not_whole():
    """Why the rest is here: where this fails, msgspec has mended it, and :mod:`bus.decoders` may go."""
    assert raced(5000, "lambda: None") < 0


def test_a_class_that_nobody_can_decode_is_passed_over():
    class Unknown(msgspec.Struct):
        field: "OnlyForTypeCheckers"  # noqa: F821

    prepare()
    with pytest.raises(NameError):
        msgspec.json.decode(b"{}", type=Unknown)
