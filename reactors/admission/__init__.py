"""Admission: a workload or a quota is admitted or refused as a whole, from what its tree holds."""

from reactors.admission.deciding.decide import Request, decide

__all__ = ["Request", "decide"]
