"""A row's state as the columns of its table, by name, and back.

A row is a Struct. Each of its fields is kept in one place:

- in the column of its name, or the one from ``names``: texts and integers as they are, booleans as 0 or 1, anything
  else as JSON of its type;
- with others in one column from ``packed``: a JSON array of these fields, NULL where all of them are None and the
  column may be NULL;
- of the field in ``spread``, itself a Struct, the same applies to each of its fields;
- nowhere, where ``known`` reads it from other columns.

All other columns are only shown: ``shown`` computes them for people and queries, always the same ones in the same
order. JSON is written in the order of the fields, so equal rows are equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import sqlalchemy as sa

R = TypeVar("R", bound=msgspec.Struct)

#: Values by the name of their column.
Named = Mapping[str, Any]

_encoder = msgspec.json.Encoder()


def text(value: Any) -> str:
    """A value as JSON."""
    return _encoder.encode(value).decode()


def _nothing(_: Any) -> dict[str, Any]:
    return {}


class Codec(Generic[R]):
    """Rows of type ``row`` as columns of ``table``. See the module's text."""

    def __init__(
        self,
        row: type[R],
        table: sa.Table,
        *,
        names: Mapping[str, str] | None = None,
        packed: Mapping[str, tuple[str, ...]] | None = None,
        spread: str = "",
        shown: Callable[[R], dict[str, Any]] = _nothing,
        known: Callable[[Named], dict[str, Any]] | None = None,
    ) -> None:
        self._type = row
        self.shown, self.known = shown, known
        self._names = [column.name for column in table.columns]
        self._orders: dict[tuple[str, ...], Callable[[Any], Any]] = {}
        types = _types(row)
        paths = {field: field for field in types}
        self._spread, self._inner = spread, types.pop(spread) if spread else None
        if self._inner is not None:
            del paths[spread]
            for field, kind in _types(self._inner).items():
                types[field], paths[field] = kind, f"{spread}.{field}"
        #: Fields of the spread struct.
        self._within = frozenset(field for field, path in paths.items() if path != field)
        self._packed = [
            (column, _all_of(attrgetter, [paths[field] for field in fields]), fields,
             msgspec.json.Decoder(_tuple([types[field] for field in fields])),
             bool(table.columns[column].nullable))
            for column, fields in (packed or {}).items()
        ]  # fmt: skip
        elsewhere = {field for fields in (packed or {}).values() for field in fields}
        places = {
            field: column
            for field in types
            if (column := (names or {}).get(field, field)) in self._names and field not in elsewhere
        }
        self._encoded = [
            (column, attrgetter(paths[field]), field, _coded(types[field]))
            for field, column in places.items()
            if not _is_plain(types[field])
        ]
        plain = [field for field in places if _is_plain(types[field])]
        self._columns = [places[field] for field in plain]
        is_all = plain == [*row.__struct_fields__]
        self._plain: Callable[[Any], tuple[Any, ...]] = (
            msgspec.structs.astuple
            if is_all
            else _all_of(attrgetter, [paths[field] for field in plain])
        )
        self._outer_fields, self._outer = self._reading(plain, places, is_within=False)
        self._inner_fields, self._inner_of = self._reading(plain, places, is_within=True)
        self._is_coded = bool(known or self._encoded or self._packed)
        #: Whether the columns in this order are the fields of the row, and nothing else is.
        self._is_flat = known is None and self._outer_fields == [*row.__struct_fields__]

    def _reading(
        self, plain: list[str], places: Mapping[str, str], *, is_within: bool
    ) -> tuple[list[str], Callable[[Any], tuple[Any, ...]]]:
        """The plain fields of the row, or of the spread struct, and their reader from columns."""
        fields = [field for field in plain if (field in self._within) is is_within]
        return fields, self.reader(*(places[field] for field in fields))

    def reader(self, *names: str) -> Callable[[Any], tuple[Any, ...]]:
        """Reader of these columns from all columns of the table."""
        return _all_of(itemgetter, [self._names.index(name) for name in names])

    def columns(self, row: R, **more: Any) -> tuple[Any, ...]:
        """The row as columns in the table's order. ``more``: columns not derived from the row."""
        shown = self.shown(row)
        found = (
            *self._plain(row),
            *[encode(get(row)) for _, get, _, (encode, _) in self._encoded],
            *[_array(get(row), is_nullable) for _, get, _, _, is_nullable in self._packed],
            *shown.values(),
            *more.values(),
        )
        ordered = self._orders.get(tuple(more)) or self._order(shown, more)
        columns: tuple[Any, ...] = ordered(found)
        return columns

    def _order(self, shown: Named, more: Named) -> Callable[[Any], Any]:
        """Sorter of all values of a row into the table's order; shown values go before plain ones."""
        coded = [column for column, *_ in (*self._encoded, *self._packed)]
        at = {name: n for n, name in enumerate([*self._columns, *coded, *shown, *more])}
        made = self._orders[tuple(more)] = itemgetter(*(at[name] for name in self._names))
        return made

    def row(self, columns: tuple[Any, ...], **more: Any) -> R:
        """The row stored as these columns. ``more``: fields kept elsewhere."""
        if self._is_flat:
            return self._type(*self._outer(columns))
        fields = dict(zip(self._outer_fields, self._outer(columns), strict=True))
        if self._is_coded:
            more.update(self._decoded(dict(zip(self._names, columns, strict=True))))
        if self._inner is not None:
            inner = dict(zip(self._inner_fields, self._inner_of(columns), strict=True))
            for field in [field for field in more if field in self._within]:
                inner[field] = more.pop(field)
            fields[self._spread] = self._inner(**inner)
        fields.update(more)
        return self._type(**fields)

    def _decoded(self, named: Named) -> dict[str, Any]:
        fields = {}
        for column, _, field, (_, decode) in self._encoded:
            fields[field] = decode(named[column])
        for column, _, names, decoder, _ in self._packed:
            if named[column] is not None:
                fields.update(zip(names, decoder.decode(named[column]), strict=True))
        if self.known is not None:
            fields.update(self.known(named))
        return fields


def _types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(struct)
    return {field: hints[field] for field in struct.__struct_fields__}


def _tuple(types: list[Any]) -> Any:
    return tuple.__class_getitem__(tuple(types))


def _array(values: tuple[Any, ...], is_nullable: bool) -> str | None:
    return None if is_nullable and all(value is None for value in values) else text(values)


def _all_of(getter: Any, places: list[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reader of a tuple of these places; ``itemgetter`` and ``attrgetter`` give a tuple from two on only."""
    if len(places) > 1:
        found: Callable[[Any], tuple[Any, ...]] = getter(*places)
        return found
    each = [getter(place) for place in places]
    return lambda thing: tuple(get(thing) for get in each)


def _is_plain(kind: Any) -> bool:
    """Whether a value is a text, an integer or None: stored in a column as it is."""
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_plain, get_args(kind)))
    return kind in (str, int, NoneType)


def _coded(kind: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """(to a column, from a column)."""
    return (int, bool) if kind is bool else (text, msgspec.json.Decoder(kind).decode)
