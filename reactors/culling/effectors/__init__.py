"""Warnings, stops and restores: :mod:`~reactors.culling.effectors.patches` makes the patches, the effector writes them."""

from reactors.culling.effectors.effector import CullClient, CullEffector, LastLook
from reactors.culling.effectors.notices import Notices
from reactors.culling.effectors.stamps import StampWriter

__all__ = ["CullClient", "CullEffector", "LastLook", "Notices", "StampWriter"]
