"""Warn of a stop, stop, and give back: :mod:`~reactors.effectors.cull.patches` says what is written, the effector writes it."""

from reactors.effectors.cull.effector import CullEffector, LastLook, Objects
from reactors.effectors.cull.notices import Notices
from reactors.effectors.cull.stamps import StampWriter

__all__ = ["CullEffector", "LastLook", "Notices", "Objects", "StampWriter"]
