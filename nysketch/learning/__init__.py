"""From sketches to models, without the data.

decode/          sketch → mixture: the decoders
learner.py       one model: decode, choose, describe
sweep.py         models for several numbers of clusters
certificate.py   bounds on their cost that hold for the data
to_file.py       from sketch files to a model file
"""
