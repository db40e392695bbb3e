"""Warn of a stop, stop, and give back: :mod:`~reactors.culling.effectors.patches` says what is written, the effector writes it."""

from reactors.culling.effectors.effector import CullEffector, LastLook, Objects
from reactors.culling.effectors.notices import Notices
from reactors.culling.effectors.stamps import StampWriter

__all__ = ["CullEffector", "LastLook", "Notices", "Objects", "StampWriter"]
