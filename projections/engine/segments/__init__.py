"""Sealed segments of the history: files that hold its beginning, so that the archive's table need not.

A segment is written behind the running ledger (:mod:`sealing`) into a folder (:mod:`places`), in one form that backups share
(:mod:`form`). Whoever reads the history reads segments and table as one (:mod:`reading`).

Source: ``docs/history.md`` (segments).
"""
