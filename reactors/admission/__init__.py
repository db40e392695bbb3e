"""Admission: a workload or a quota is admitted or refused as a whole, from the charges in its tree."""

from reactors.admission.deciding.decide import Request, decide

__all__ = ["Request", "decide"]
