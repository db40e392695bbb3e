"""How much of a large space a run tries: some of it always, more of it in `make acceptance`, which loads the profile `thorough`.

A test whose size is chosen here is marked `thorough`; property tests have the mark `hypothesis` from their library.
"""

from hypothesis import settings

IS_THOROUGH = settings.get_current_profile_name() not in ("core", "default")


def tries(few, many):
    """How many are tried: ``few`` in every run, ``many`` in a thorough one."""
    return many if IS_THOROUGH else few
