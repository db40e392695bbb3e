"""The rows of complete lists of pods, and of the moments at which their source was alive."""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import Integer, row_table

pod_lists = row_table(
    "pod_lists",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
    sa.Column("first_uid", sa.Text, primary_key=True),
    sa.Column("until_uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    # Its uids are in the archive, in the body of the event ``sequence``.
)


#: When the source of pods was known to be told of every change; the newest before a list bounds what the list missed.
pod_beats = row_table(
    "pod_beats",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
)
