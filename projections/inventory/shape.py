"""Rows of the cards of a cluster over time, and of complete lists of slices."""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import Integer, partial_index, row_table
from projections.lists.rows import departures

card_supply = row_table(
    "card_supply",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("card", sa.Text, primary_key=True),
    sa.Column("start_s", Integer, primary_key=True),
    sa.Column("end_s", Integer),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    # Cluster, driver and pool: its rows are written together.
    sa.Column("origin", sa.Text, nullable=False),
    sa.Index("card_supply_by_origin", "origin"),
    partial_index("card_supply_open", "cluster", "node", where="end_s IS NULL"),
)

slice_lists = row_table(
    "slice_lists",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
    sa.Column("first_uid", sa.Text, primary_key=True),
    sa.Column("until_uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    # Its uids are in the archive, in the body of the event ``sequence``.
)

slice_departures = departures("slice_departures")
