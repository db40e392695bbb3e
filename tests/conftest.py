"""Options and plug-ins of the whole suite; fixtures lie beside the tests that use them, none is automatic."""

import gc
import importlib.util
import sys
import time

import pytest
from hypothesis import HealthCheck, settings

# A module that a clone may lack must not end the whole run.
pytest_plugins = [
    name
    for name in ("tests.cluster.fixtures", "tests.servers", "tests.running")
    if importlib.util.find_spec(name) is not None
]

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

#: Part of `make core`.
settings.register_profile(
    "core", max_examples=5, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
#: A second a property; failures are remembered in .hypothesis and tried first.
settings.register_profile(
    "default", max_examples=20, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
#: Part of `make acceptance`.
settings.register_profile(
    "thorough", max_examples=100, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
#: Minutes a property: `pytest --hypothesis-profile=ci`.
settings.register_profile(
    "ci", max_examples=2_000, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
settings.load_profile("default")


#: After a collection that took longer, what is there by then (parsed modules, a recorded day) is not looked at again: what
#: a fixture of a module that is there by then leaves open is not found.
MUCH_SECONDS = 0.02


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """What a test leaves open is its own error, and not that of whichever test is running when it is collected."""
    result = yield
    left = []
    usual, sys.unraisablehook = sys.unraisablehook, lambda found: left.append(repr(found.exc_value))
    began = time.thread_time()
    try:
        gc.collect()
    finally:
        sys.unraisablehook = usual
    if time.thread_time() - began > MUCH_SECONDS:
        gc.freeze()
    if left:
        raise ResourceWarning(f"{item.nodeid} leaves behind: {', '.join(left)}")
    return result
