"""How rows are read: one value, whatever it is for."""

from dataclasses import fields

import numpy as np
import pytest

from nysketch import Basis, Column
from nysketch.basis.options import BasisOptions
from nysketch.errors import UsageError
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadKeywords, ReadOptions
from nysketch.sources.selection import Selection


def test_every_field_is_a_keyword_of_the_same_type():
    annotations = {field.name: field.type for field in fields(ReadOptions)}
    given = {name: kind.__forward_arg__ for name, kind in ReadKeywords.__annotations__.items()}
    assert given == annotations


def test_one_name_is_a_list_of_one():
    options = ReadOptions(columns="ab", exclude="cd", keep="ef", datasets="gh")
    assert (options.columns, options.exclude) == (("ab",), ("cd",))
    assert (options.keep, options.datasets) == (("ef",), ("gh",))
    assert options == ReadOptions(columns=["ab"], exclude=["cd"], keep=["ef"], datasets=["gh"])


def test_keywords_change_options():
    rows = np.arange(12.0).reshape(4, 3)
    some = ReadOptions(columns=["x0", "x2"])
    assert [column.name for column in open_source(rows, some).columns] == ["x0", "x2"]
    assert [column.name for column in open_source(rows, some, columns=["x1"]).columns] == ["x1"]


def test_a_basis_says_what_to_read():
    basis = Basis.fit(np.random.default_rng(0).standard_normal((50, 2)), landmarks=5)
    assert ReadOptions(weights="w").for_basis(basis) == ReadOptions(weights="w", like=basis.columns)
    assert ReadOptions().for_basis(basis).selection() == Selection(("x0", "x1"))
    with pytest.raises(UsageError, match="the basis determines the columns"):
        ReadOptions(columns=["x0"]).for_basis(basis).selection()


def test_a_basis_to_be_made_says_what_to_read():
    groups = BasisOptions(groups={"x": ["a", "b"], "y": ["c"]})
    assert ReadOptions().for_basis(groups) == ReadOptions(columns=("a", "b", "c"), automatic=True)
    assert ReadOptions(columns=["a"]).for_basis(BasisOptions(kernel="spectrum")) == ReadOptions(
        columns=("a",), text=True
    )
    with pytest.raises(UsageError, match="the groups determine the columns"):
        ReadOptions(columns=["a"]).for_basis(groups)


def test_columns_of_text_are_read_as_text():
    assert ReadOptions(like=[Column("t", text=True)]).selection() == Selection(("t",), text=True)
