"""Reports and pictures: what a store or a sketch holds, to look at.

contents.py        a store, read and checked
report.py          the page: its first sentence and which sections it has
driftsections.py   drift over time, which columns moved
sections.py        rows, quality, runs, partitions
modelsections.py   clusters over time; mapsection.py: where the newest rows are
page.py            HTML: the frame of the page, tables, figures
pictures.py        single pictures of sketches and models

charts.py          lines, bars and heat maps; clouds.py: points and centres
maps.py            landmarks and centres as points; projecting.py: in two dimensions
tracking.py        which cluster of one model is which of another
scales.py          numbers to places and words
drawing.py         what a picture consists of; colours.py: in which colours
svg.py, png.py     drawings as files

Pictures are drawn by these few modules and not by a plotting library: a page holds dozens of them, and they
must follow light and dark, have words for those who do not see them, and be the same bytes every time.
"""

from __future__ import annotations

from nysketch.reporting.pictures import plot
from nysketch.reporting.report import Report, write_report

__all__ = ["Report", "plot", "write_report"]
