"""A row's state as columns by name, and back: each way in which a field can be kept."""

import msgspec
import sqlalchemy as sa

from projections.engine.codec import Codec


class Inner(msgspec.Struct, frozen=True):
    number: int
    labels: dict[str, str]
    parts: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True):
    name: str
    inner: Inner
    is_good: bool = False
    first: int | None = None
    second: str | None = None
    elsewhere: int = 0
    sequence: int = 0


TABLE = sa.Table(
    "rows",
    sa.MetaData(),
    sa.Column("length", sa.Integer),
    sa.Column("called", sa.Text),
    sa.Column("is_good", sa.Integer),
    sa.Column("number", sa.Integer),
    sa.Column("labels", sa.Text),
    sa.Column("both", sa.Text),
    sa.Column("parts", sa.Text),
    sa.Column("sequence", sa.Integer),
    sa.Column("cluster", sa.Text),
)

CODEC = Codec(
    Row,
    TABLE,
    names={"name": "called"},
    packed={"both": ("first", "second")},
    spread="inner",
    shown=lambda row: {"length": len(row.name)},
)

FULL = Row("one", Inner(7, {"a": "b"}, ("x",)), True, 1, "two", 5, 9)


def test_each_field_goes_into_its_column():
    columns = CODEC.columns(FULL, cluster="c")

    assert columns == (3, "one", 1, 7, '{"a":"b"}', '[1,"two"]', '["x"]', 9, "c")


def test_a_row_comes_back_with_what_is_kept_elsewhere():
    assert CODEC.row(CODEC.columns(FULL, cluster="c"), elsewhere=5) == FULL


def test_packed_fields_that_are_all_none_are_null():
    row = msgspec.structs.replace(FULL, first=None, second=None, elsewhere=0)
    columns = CODEC.columns(row, cluster="c")

    assert columns[5] is None
    assert CODEC.row(columns) == row
