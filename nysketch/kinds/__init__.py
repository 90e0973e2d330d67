"""Kinds of columns: how a value of a table's column becomes features.

A row of a table has one number for each column: a number itself, the code of a category, the second of a
time. A kind turns these numbers into features, whose distances mean something: sines and cosines of the
hour, one indicator for each category. Plain numbers and lists need no kind. Which kind a column gets, and
what it takes from the pilot, is basis/encoding.py's business; how a table's values become numbers is
sources/encoding.py's.

base.py      the protocol
number.py    numbers: as they are, by logarithm, by rank; with missing values
category.py  a vocabulary of values
time.py      hour, weekday and day of the year on circles; elapsed time
text.py      places of texts on a sphere
requests.py  what users ask for: price=log
differences.py  how two kinds of a column differ, in words
words.py     values of categories in a line of words
"""

from nysketch.kinds.base import Kind
from nysketch.kinds.category import Category
from nysketch.kinds.number import Number
from nysketch.kinds.requests import KindRequest, parse_kinds
from nysketch.kinds.text import Text
from nysketch.kinds.time import Time

__all__ = ["Category", "Kind", "KindRequest", "Number", "Text", "Time", "parse_kinds"]
