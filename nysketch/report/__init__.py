"""The report of a store: one page of HTML.

contents.py           a store, read and checked
write.py              the page: its first sentence and which sections it has
sections/             the sections
cluster_tracking.py   which cluster of one model is which of another
html.py               the frame of the page, tables, figures
"""
