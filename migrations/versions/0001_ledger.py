"""The ledger's first schema: archive, checkpoint, parked events, signed heads, and the rows of the first projections."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

#: 64 bits; SQLite's STRICT tables know one integer only.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

#: Bytes decide the order on both databases: keys are compared in ranges, and dumps sorted by key must be equal.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _INTEGER, nullable=nullable, autoincrement=False)


def _small(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), nullable=nullable, autoincrement=False)


def _bytes(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _table(name: str, key: tuple[str, ...], *columns: sa.Column[Any]) -> None:
    op.create_table(name, *columns, sa.PrimaryKeyConstraint(*key), sqlite_strict=True)


def _index(name: str, table: str, *columns: str, where: str | None = None) -> None:
    condition = sa.text(where) if where else None
    op.create_index(name, table, [*columns], sqlite_where=condition, postgresql_where=condition)


def upgrade() -> None:
    """Make every table."""
    _table(
        "events",
        ("sequence",),
        _integer("sequence"),
        _text("cluster"),
        _text("type"),
        _text("key"),
        _text("id"),
        _text("source"),
        _integer("time_us"),
        _small("version"),
        _text("defect"),
        _bytes("body"),
        _bytes("chain"),
    )
    _table(
        "checkpoints",
        ("name",),
        _text("name"),
        _text("version"),
        _text("stream"),
        _integer("stream_created_us"),
        _small("incarnation"),
        _integer("sequence"),
        _bytes("digest"),
        _bytes("chain"),
        _integer("observed_us"),
    )
    _table(
        "parked",
        ("sequence",),
        _integer("sequence"),
        _text("type"),
        _text("key"),
        _text("reason"),
    )
    _table(
        "heads",
        ("sequence",),
        _integer("sequence"),
        _bytes("chain"),
        _bytes("signature"),
        _bytes("public_key"),
    )
    _table(
        "namespaces",
        ("cluster", "namespace"),
        _text("cluster"),
        _text("namespace"),
        _text("uid", nullable=True),
        _text("team", nullable=True),
        _text("user_name", nullable=True),
        _small("vanished"),
        _text("state"),
        _integer("sequence"),
    )
    _table(
        "nodes",
        ("cluster", "node"),
        _text("cluster"),
        _text("node"),
        _text("uid", nullable=True),
        _text("model", nullable=True),
        _text("allocatable", nullable=True),
        _small("ready"),
        _small("unschedulable"),
        _small("vanished"),
        _text("state"),
        _integer("sequence"),
    )
    _table(
        "workloads",
        ("uid",),
        _text("uid"),
        _text("cluster"),
        _text("namespace"),
        _text("kind"),
        _text("name"),
        _text("owner_uid", nullable=True),
        _small("vanished"),
        _text("state"),
        _integer("sequence"),
    )
    _index("workloads_by_owner", "workloads", "owner_uid")
    _table(
        "pod_runs",
        ("uid",),
        _text("uid"),
        _text("cluster"),
        _text("namespace"),
        _text("name"),
        _text("workload"),
        _text("owner_uid", nullable=True),
        _text("team"),
        _text("user_name"),
        _text("node", nullable=True),
        _text("phase"),
        _text("labels"),
        _integer("created_us"),
        _integer("started_us", nullable=True),
        _integer("deleted_us", nullable=True),
        _integer("created_s"),
        _integer("start_s", nullable=True),
        _integer("end_s", nullable=True),
        _integer("unknown_s"),
        _text("flags"),
        _small("vanished"),
        _text("state"),
        _integer("sequence"),
    )
    _index("pod_runs_by_namespace", "pod_runs", "cluster", "namespace")
    _index("pod_runs_by_owner", "pod_runs", "owner_uid")
    _index("pod_runs_open", "pod_runs", "cluster", "uid", where="end_s IS NULL")
    _index("pod_runs_vanished", "pod_runs", "cluster", "uid", where="vanished = 1")
    _table(
        "held_segments",
        ("uid", "start_s"),
        _text("uid"),
        _integer("start_s"),
        _integer("end_s", nullable=True),
        _integer("cpu_milli"),
        _integer("memory_mib"),
        _integer("gpu_milli"),
        _text("extended"),
        _text("cluster"),
        _text("namespace"),
        _text("workload"),
        _text("team"),
        _text("user_name"),
        _text("node"),
        _text("model", nullable=True),
        _integer("sequence"),
    )
    _index("held_segments_by_node", "held_segments", "cluster", "node")
    _table(
        "pod_lists",
        ("cluster", "time_us", "first_uid"),
        _text("cluster"),
        _integer("time_us"),
        _text("first_uid"),
        _text("until_uid"),
        _text("resource_version"),
        _integer("sequence"),
    )
    _table(
        "usage_hours",
        ("hour_s", "cluster", "team", "user_name", "namespace", "workload", "model"),
        _integer("hour_s"),
        _text("cluster"),
        _text("team"),
        _text("user_name"),
        _text("namespace"),
        _text("workload"),
        _text("model"),
        _integer("cpu_milli_s"),
        _integer("memory_mib_s"),
        _integer("gpu_milli_s"),
        _integer("held_s"),
        _integer("pods"),
        _integer("sequence"),
    )
    _table(
        "usage_days",
        ("day_s", "cluster", "team", "user_name", "namespace", "workload", "model"),
        _integer("day_s"),
        _text("cluster"),
        _text("team"),
        _text("user_name"),
        _text("namespace"),
        _text("workload"),
        _text("model"),
        _integer("cpu_milli_s"),
        _integer("memory_mib_s"),
        _integer("gpu_milli_s"),
        _integer("held_s"),
        _integer("pods"),
        _integer("sequence"),
    )


def downgrade() -> None:
    """Drop every table: the history with them."""
    op.drop_table("usage_days")
    op.drop_table("usage_hours")
    op.drop_table("pod_lists")
    op.drop_table("held_segments")
    op.drop_table("pod_runs")
    op.drop_table("workloads")
    op.drop_table("nodes")
    op.drop_table("namespaces")
    op.drop_table("heads")
    op.drop_table("parked")
    op.drop_table("checkpoints")
    op.drop_table("events")
