"""The rows of complete lists of pods, of departed pods, and of the heartbeats of their source."""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import Integer, row_table


def departures(name: str) -> sa.Table:
    """A table of objects missing in lists: the newest list with each before one without it, and that one."""
    return row_table(
        name,
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("seen_us", Integer, primary_key=True),
        sa.Column("missed_us", Integer, nullable=False),
        is_clustered=True,
    )


pod_lists = row_table(
    "pod_lists",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
    sa.Column("first_uid", sa.Text, primary_key=True),
    sa.Column("until_uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    # Its uids are in the archive, in the body of the event ``sequence``.
)

pod_departures = departures("pod_departures")
claim_departures = departures("claim_departures")

#: The times of full information of the source of pods; the newest before a list bounds the list's missing time.
pod_beats = row_table(
    "pod_beats",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
)
