"""Options and plug-ins of the whole suite; fixtures lie beside the tests that use them, none is automatic."""

import importlib.util

from hypothesis import HealthCheck, settings

# A module that a clone may lack must not end the whole run.
pytest_plugins = [
    name
    for name in ("tests.cluster.fixtures", "tests.servers", "tests.running")
    if importlib.util.find_spec(name) is not None
]

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

#: A second a property; failures are remembered in .hypothesis and tried first.
settings.register_profile(
    "default", max_examples=20, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
#: Part of `make acceptance`.
settings.register_profile(
    "thorough", max_examples=200, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
#: Minutes a property: `pytest --hypothesis-profile=ci`.
settings.register_profile(
    "ci", max_examples=2_000, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
settings.load_profile("default")
