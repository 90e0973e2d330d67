"""Which columns of a table are read, and why others are not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nysketch.columns import Column
from nysketch.errors import SchemaError, option
from nysketch.kinds import Category, Kind, Text, Time

# Why columns that the user named are no features.
EXCLUDED, ROW_WEIGHTS = "excluded", "row weights"
# Why columns of common types are none.
TEXT, TIME = "text", "time"


# Kinds by type. Durations are numbers of seconds; times of the day have no week.
_AUTOMATIC: dict[str, Kind | None] = {
    "category": Category(),
    "time": Time(),
    "hour": Time(("hour",)),
    "number": None,
}


@dataclass(frozen=True)
class Field:
    """A column on offer. `width` is 0 if it holds no numbers, None for a list of unknown length.

    `left_out` says why it is not taken as numbers unless named, `text_left_out` why not as text. `automatic`
    is the kind that it has unless another is named; none if it is one of numbers. An `empty` one has no
    values, and thus no type: all of them are missing, whatever the kind.
    """

    type: str
    width: int | None = 1
    left_out: str = ""
    text: bool = False
    text_left_out: str = ""
    time: bool = False
    automatic: str = ""
    empty: bool = False

    def is_usable(self, column: Column) -> bool:
        """Say whether it can be read as a column: as text, as a kind, or else as numbers."""
        return (
            self.text if column.text else self.width != 0 if column.kind is None else self.can_be(column.kind)
        )

    def can_be(self, kind: Kind) -> bool:
        """Say whether its values can be those of a kind."""
        if self.empty:
            return True
        if isinstance(kind, Category):
            return self.text or self.width == 1
        if isinstance(kind, Text):
            return self.text
        return self.time if isinstance(kind, Time) else self.width == 1

    def why_left_out(self, *, text: bool) -> str:
        """Return why it is not taken unless named; nothing if it is taken."""
        if not text:
            return self.left_out
        return self.text_left_out if self.text else self.type


@dataclass(frozen=True)
class Selection:
    """Which columns the user wants: all numeric ones unless `columns` are named; or the one of `text`.

    Those to `keep` pass through unchanged, whether or not they are among the others. With `every_number`,
    numeric columns are taken as if they were named. Columns that have `kinds` are taken, too. With
    `automatic`, as for a new basis, so are those that have a kind by their type.
    """

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    weights: str | None = None
    text: bool = False
    keep: tuple[str, ...] = ()
    every_number: bool = False
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    automatic: bool = False

    def kind_of(self, name: str, field: Field) -> Kind | None:
        """Return the kind that a column has, by its name or by its type."""
        if name in self.kinds or not self.is_automatic(field):
            return self.kinds.get(name)
        return _AUTOMATIC[field.automatic]

    def is_automatic(self, field: Field) -> bool:
        """Tell whether a column is taken because of its type."""
        return bool(self.automatic and field.automatic and not (self.columns is None and field.text_left_out))

    def optional(self, columns: Iterable[Column]) -> frozenset[str]:
        """Return which of the chosen columns nobody named: those that are no features can be left out."""
        named = self.columns is not None or self.text or self.every_number
        return frozenset() if named else frozenset(c.name for c in columns if c.name not in self.kinds)

    def choose(self, fields: Mapping[str, Field], where: str) -> tuple[list[str], dict[str, str]]:
        """Return the names of the chosen columns in order, and why the others are left out."""
        for name in (*(self.columns or ()), *self.exclude, *filter(None, [self.weights]), *self.kinds):
            require_field(fields, name, where)
        if self.weights is not None and fields[self.weights].width != 1:
            raise SchemaError(
                f"{where}: weights column {self.weights!r} has type {fields[self.weights].type}; "
                "it must be numeric"
            )
        left_out: dict[str, str] = {}
        chosen: list[str] = []
        for name in self.columns if self.columns is not None else fields:
            here = fields[name]
            if name in self.exclude:
                left_out[name] = EXCLUDED
            elif name == self.weights:
                left_out[name] = ROW_WEIGHTS
            elif name in self.kinds or (not self.text and self.is_automatic(here)):
                chosen.append(name)
            elif self.columns is None and (why := here.why_left_out(text=self.text)):
                left_out[name] = why
            else:
                chosen.append(name)
        if not chosen:
            reasons = shorten(f"{name} ({why})" for name, why in left_out.items())
            what = "text column" if self.text else "numeric columns"
            raise SchemaError(
                f"{where}: no {what} to sketch. Left out: {reasons or 'nothing: no columns at all'}"
            )
        if self.text and len(chosen) > 1:
            raise SchemaError(
                f"{where}: there are {len(chosen)} text columns: {shorten(chosen)}. Choose one with `columns`"
            )
        if len(set(chosen)) < len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise SchemaError(f"column {twice!r} is named twice in `columns`, or in two groups")
        return chosen, left_out


def require_field(fields: Mapping[str, Field], name: str, where: str) -> Field:
    """Return the field `name`, or raise an error that names the likely one."""
    field = fields.get(name)
    if field is None:
        close = difflib.get_close_matches(name, list(fields)[:1000], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; it has {shorten(fields)}"
        raise SchemaError(f"{where}: no column {name!r}{hint}")
    return field


def require_numeric(field: Field, name: str, where: str) -> None:
    """Raise a SchemaError unless the field can be read as numbers."""
    if field.width == 0:
        kernels = '. String kernels, such as `kernel="spectrum"`, read text' if field.text else ""
        raise SchemaError(
            f"{where}: column {name!r} has type {field.type}, which is not numeric. Leave it out with "
            f"{option('exclude', name)} (or use a basis without it), or convert it first{kernels}"
        )


def require_kind(field: Field, name: str, kind: Kind, where: str) -> None:
    """Raise a SchemaError unless the values of the field can be those of a kind."""
    if not field.can_be(kind):
        words = {Category: "text, numbers or truth values", Time: "times or dates", Text: "text"}
        what = words.get(type(kind), "numbers")
        raise SchemaError(
            f"{where}: column {name!r} has type {field.type}; a column of kind {kind.name} holds {what}"
        )


def require_text(field: Field, name: str, where: str) -> None:
    """Raise a SchemaError unless the field can be read as text."""
    if not field.text:
        raise SchemaError(
            f"{where}: column {name!r} has type {field.type}, not text; string kernels need a text column"
        )


def require_same(
    fields: Mapping[str, Field],
    columns: Iterable[Column],
    where: str,
    *,
    first: Mapping[str, Field],
    first_where: str,
) -> None:
    """Raise a SchemaError unless `columns`, chosen from `first`, are here too, as text or numbers as wide."""
    for column in columns:
        field = fields.get(column.name)
        if field is None:
            raise SchemaError(
                f"{where}: no column {column.name!r}, which {first_where} has. Choose columns that all "
                "files have with `columns`"
            )
        if not field.is_usable(column):
            remedy = (
                "Convert"
                if column.text
                else f"Leave it out with {option('exclude', column.name)}, or convert"
            )
            raise SchemaError(
                f"{where}: column {column.name!r} has type {field.type}, "
                f"in {first_where} it is {first[column.name].type}. {remedy} it first"
            )
        if not column.text and column.kind is None and field.width not in (None, column.width):
            raise SchemaError(
                f"{where}: column {column.name!r} has width {field.width}, in {first_where} it has "
                f"{column.width}. Leave it out with {option('exclude', column.name)}"
            )


def names_of(columns: Iterable[Column], weights: str | None) -> list[str]:
    """Return the names of the columns to read, that of the weights last."""
    return [*(column.name for column in columns), *filter(None, [weights])]


def shorten(names: Iterable[str], most: int = 8) -> str:
    """Join names, but never a million of them."""
    listed = list(names)
    shown = ", ".join(listed[:most])
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most:,} more"


def left_out_in_words(left_out: Mapping[str, str]) -> list[str]:
    """Return the columns that are not used, each with the reason, but not those that the user named."""
    return [f"{name} ({why})" for name, why in left_out.items() if why not in (EXCLUDED, ROW_WEIGHTS)]


def notes_on_no_features(left_out: Mapping[str, str], *, but: Mapping[str, str]) -> list[str]:
    """Say which columns will not be used because of what they hold, `but` not those known before."""
    told = [f"{name} ({why})" for name, why in left_out.items() if name not in but]
    return [f"left out: {shorten(told)}. To use them anyway, name all columns in `columns`"] if told else []


def notes_on_left_out(left_out: Mapping[str, str]) -> list[str]:
    """Say which columns will not be used, and why; nothing of those that the user named for it."""
    told = left_out_in_words(left_out)
    return ["left out: " + shorten(told)] if told else []
