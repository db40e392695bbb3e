"""Warnings, stops and restores: :mod:`~reactors.culling.effectors.patches` makes the patches, the effector writes them."""

from reactors.culling.effectors.effector import CullEffector, LastLook, Objects
from reactors.culling.effectors.notices import Notices
from reactors.culling.effectors.stamps import StampWriter

__all__ = ["CullEffector", "LastLook", "Notices", "Objects", "StampWriter"]
