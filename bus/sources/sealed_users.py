"""Values of the user's label outside labels: in selectors, affinity rules, tolerations and taints. Pure.

Source: docs/history.md, "Names of users".
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bus.kube.watch.labels import LabelPolicy, user_named

T = TypeVar("T")


def sealed(value: T, kind: Any, policy: LabelPolicy) -> T:
    """A part of a fact, of the type ``kind``, with the values of the user's label under the policy's key.

    A value stands beside its key (``key``, ``value``, ``values``), or under it.
    """
    if policy.names is None:
        return value
    plain = msgspec.to_builtins(value)
    found = _walked(plain, policy)
    return value if found == plain else msgspec.convert(found, kind)


def _walked(value: Any, policy: LabelPolicy) -> Any:
    if isinstance(value, list | tuple):
        return [_walked(one, policy) for one in value]
    if not isinstance(value, dict):
        return value
    is_of_users = value.get("key") == policy.user
    found = {}
    for key, one in value.items():
        if key == policy.user or (is_of_users and key in ("value", "values")):
            found[key] = _sealed_texts(one, policy)
        else:
            found[key] = _walked(one, policy)
    return found


def _sealed_texts(value: Any, policy: LabelPolicy) -> Any:
    if isinstance(value, list | tuple):
        return [_sealed_texts(one, policy) for one in value]
    if not isinstance(value, str):
        return _walked(value, policy)
    return user_named(policy, {policy.user: value}) or value
