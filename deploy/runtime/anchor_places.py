"""Places of signed heads, by address. The settings or a question give the address.

Source: ``docs/history.md`` (the chain).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from bus.object_store import SCHEME as OBJECTS
from deploy.errors import SettingsError
from deploy.settings.load import cluster_access
from projections.engine.anchors import AnchorPlace, DailyHeads, LoggedHeads, Objects

if TYPE_CHECKING:
    from deploy.settings.shape import Settings

CONFIG_MAPS = "configmap://"
#: The prefix of a log's address, before its URL.
LOG = "rekor+"
#: The default purpose of heads in ConfigMaps.
PURPOSE = "bursar"
#: A namespace, and the prefix of the ConfigMaps' names.
_CONFIG_MAPS = re.compile(rf"{CONFIG_MAPS}([a-z0-9-]{{1,63}})(?:/([a-z0-9-]{{1,40}}))?")

_PLAIN = re.compile(r"[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?")


def is_place(address: str) -> bool:
    """Whether this is the address of a place, and not a file."""
    return address.startswith((OBJECTS, CONFIG_MAPS, LOG))


def place_of(address: str, settings: Settings) -> AnchorPlace:
    """The place at ``address``. Raises SettingsError for an unknown address, or if its cluster is not found."""
    if address.startswith(OBJECTS):
        return Objects(address)
    if address.startswith(LOG):
        return _logged(address.removeprefix(LOG), settings)
    named = _CONFIG_MAPS.fullmatch(address)
    if named is None:
        raise SettingsError(f"{address}: name a place as in configmap://bursar-anchors/bursar")
    access = cluster_access(settings)
    if access is None:
        raise SettingsError(f"{address}: no cluster found: no kubeconfig and no service account")
    from bus.kube.client.config_maps import ConfigMaps

    found = ConfigMaps(access, named[1], named[2] or PURPOSE, settings.cluster.trust_env)
    return DailyHeads(found)


def _logged(url: str, settings: Settings) -> AnchorPlace:
    key = settings.ledger.anchor_key
    if key is None and not url.startswith("https://"):
        raise SettingsError(
            f"{LOG}{url}: whoever is on the way could answer for the log: name its public key, ledger.anchor_key"
        )
    from bus.transparency_log import TransparencyLog

    return LoggedHeads(TransparencyLog(url, key, trust_env=settings.cluster.trust_env))


def below(address: str, name: str) -> str:
    """The address of one cluster of a hub; "" if the hub has none.

    A cluster name is not always a valid ConfigMap name. An invalid one is replaced by the start of its SHA-256.
    """
    if address.startswith(CONFIG_MAPS):
        namespace, _, purpose = address.removeprefix(CONFIG_MAPS).partition("/")
        own = name if _PLAIN.fullmatch(name) else sha256(name.encode()).hexdigest()[:12]
        return f"{CONFIG_MAPS}{namespace}/{(purpose or PURPOSE)[:25]}-{own}"
    if address.startswith(LOG):
        # A log tells heads by their keys, and each ledger has its own.
        return address
    return f"{address.rstrip('/')}/{name}" if address else ""
