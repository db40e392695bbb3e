"""Names the critical places for crashes in tests.

``crashpoint(label)`` does nothing in production. A test installs a hook and kills, raises, pauses or stops at its
label; the list below is a golden file, and a test asserts that each label was reached.

Source: docs/architecture.md, docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable

#: Every label there is, in the order of the flow.
LABELS = (
    "source.before_publish",
    "source.after_publish",
    "runner.after_read",
    "runner.after_fold",
    "store.after_begin",
    "store.after_archive",
    "store.after_rows",
    "store.after_sums",
    "store.before_commit",
    "store.after_commit",
    "migrate.before_upgrade",
    "migrate.after_upgrade",
    "recover.before_publish",
    "recover.after_publish",
    "recover.before_checkpoint",
    "recover.after_checkpoint",
    "replay.before_swap",
    "replay.after_swap",
    "fill.before_join",
    "fill.after_join",
    "snapshot.before_write",
    "snapshot.before_commit",
    "snapshot.after_commit",
    "seal.before_file",
    "seal.after_file",
    "seal.before_commit",
    "seal.after_commit",
    "trim.before_delete",
    "trim.before_commit",
    "trim.after_commit",
    "bus_trim.before_limit",
    "bus_trim.after_limit",
    "bus_trim.after_limit_is_gone",
    "journal.before_append",
    "journal.after_append",
    "queue.before_release",
    "queue.after_release",
    "release.before_patch",
    "release.after_patch",
    "evict.before_evict",
    "evict.after_evict",
    "migration.before_reserve",
    "migration.after_reserve",
    "migration.before_report",
    "migration.after_report",
    "migration.before_end",
    "migration.after_end",
    "bind.before_claim",
    "bind.after_claim",
    "bind.before_post",
    "bind.after_post",
    "bind.before_settle",
    "quota_status.before_apply",
    "quota_status.after_apply",
    "decision.before_publish",
    "decision.after_publish",
    "effect.before_act",
    "effect.after_act",
    "effect.after_settle",
    "job.before_create",
    "job.after_service",
    "job.after_create",
    "job.before_delete",
    "job.after_delete",
    "job.before_claim",
    "job.after_claim",
    "job.before_group",
    "job.after_group",
    "job.before_report",
    "job.after_report",
    "job.before_end",
    "job.after_end",
    "cull.before_stop",
    "cull.before_scale",
    "cull.after_scale",
    "cull.after_stop",
    "cull.after_evict",
    "cull.before_restore",
    "cull.after_restore",
    "stamp.before_write",
    "stamp.after_write",
)

_hook: Callable[[str], None] | None = None


def crashpoint(label: str) -> None:
    """Reports the arrival of the code at ``label``."""
    if _hook is not None:
        _hook(label)


def install(hook: Callable[[str], None] | None) -> None:
    """Call ``hook`` with every label reached from now on; None for nothing. For tests only."""
    global _hook
    _hook = hook
