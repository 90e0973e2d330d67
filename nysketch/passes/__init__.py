"""One pass over a source: rows → chunks → sums → sketch.

execution.py    who runs it, and who hears how far it is
memory.py       how much memory it takes, and how many threads fit
shards.py       one part of a source: 3/16
chunks.py       batches of any size → chunks of rows, checked and numbered
task.py         what all work on fragments shares
pilot.py        a sample of rows to make a basis from
left_out.py     columns that it shows to be no features
accumulate.py   a fragment → its sums; all fragments so far → a tally
sketching.py    the pass
rows.py         functions of rows: features, embeddings, labels
to_file.py      a pass that ends in a file, with a lock, resume and all
"""
