"""Sealed segments of the history: files with its beginning, so the archive's table need not hold it.

A segment is written behind the running ledger (:mod:`sealing`) into a folder (:mod:`places`), in one form that
backups share (:mod:`form`). All readers of the history read segments and table as one (:mod:`reading`).

Source: ``docs/history.md`` (segments).
"""
