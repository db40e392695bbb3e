"""Anomaly detection: a node counts as abnormal after enough abnormal rounds in a row. Pure but for its counters.

Source: koordinator-sh/koordinator, pkg/descheduler/utils/anomaly.
"""

from __future__ import annotations


class Detector:
    """Turns abnormal after more than ``abnormal`` abnormal rounds in a row, and normal after more than ``normal`` normal ones.

    It also turns normal once it was abnormal for longer than ``timeout_us``; further abnormal rounds do not extend that.
    """

    def __init__(self, abnormal: int, normal: int, timeout_us: int) -> None:
        self._abnormal, self._normal, self._timeout_us = abnormal, normal, timeout_us
        self.is_abnormal = False
        self._until_us = 0
        #: Rounds in a row of the last kind.
        self._in_row, self._was_normal = 0, True

    def mark(self, at_us: int, *, is_normal: bool) -> None:
        """Count one round."""
        if self.is_abnormal and at_us > self._until_us:
            self._turn(is_abnormal=False, at_us=at_us)
        self._in_row = self._in_row + 1 if is_normal == self._was_normal else 1
        self._was_normal = is_normal
        if self.is_abnormal and is_normal and self._in_row > self._normal:
            self._turn(is_abnormal=False, at_us=at_us)
        elif not self.is_abnormal and not is_normal and self._in_row > self._abnormal:
            self._turn(is_abnormal=True, at_us=at_us)

    def reset(self) -> None:
        """The node is underused: it begins anew as normal."""
        self._turn(is_abnormal=False, at_us=0)

    def _turn(self, *, is_abnormal: bool, at_us: int) -> None:
        self.is_abnormal = is_abnormal
        self._until_us = at_us + self._timeout_us
        self._in_row = 0
