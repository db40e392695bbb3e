"""Complete lists as evidence: present and missing objects, their departures, and beats of the source of pods.

Source: docs/accounting.md (end unseen).
"""
