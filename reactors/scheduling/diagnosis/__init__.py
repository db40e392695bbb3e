"""Diagnosis of the scheduler in Koordinator's forms, and dry runs."""
