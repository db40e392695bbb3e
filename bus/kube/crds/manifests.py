"""The manifest of Bursar's CRDs, as delivered."""

from __future__ import annotations

import yaml

from bus.kube.crds.schema import crds


def manifest() -> str:
    """All CRDs as one YAML stream."""
    head = "# Written by `make docs` from the models in bus/resources; do not edit.\n"
    return head + yaml.safe_dump_all(crds(), sort_keys=False, width=120)
