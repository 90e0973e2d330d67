"""Pictures of sketches and models.

plots.py          single pictures, as files
charts.py         lines, bars and heat maps
scatter.py        points and centres
landmark_map.py   landmarks and centres as points
projection.py     in two dimensions
scales.py         numbers to places and words
drawing.py        what a picture consists of
colours.py        in which colours
svg.py, png.py    drawings as files

Pictures are drawn by these few modules and not by a plotting library: a page holds dozens of them, and they
must follow light and dark, have words for those who do not see them, and be the same bytes every time.
"""
