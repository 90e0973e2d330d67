"""Jobs: one job file and one store that a single line of a crontab keeps up to date.

partition_names.py   `{date}` in paths, hive keys, names → the partition that a file belongs to
schema.py            the tables and keys of a job file, their types and defaults
config.py            job file, variables and flags → the settings of a run
inputs.py            what there is to read: files by partition, and how to tell whether one has changed
records.py           the JSON files of a store: the shape of each, checked on reading
store_io.py          files of a store: JSON, digests, pairs of files that change together, the history
store.py             reading a store; all that a report needs
diff.py              what a run has to do: inputs beside what the store knows of them
sketch_step.py       the basis and one sketch per partition
window_step.py       sums over the last partitions, kept by adding and subtracting; retired partitions
drift_step.py        comparisons of partitions, and which of them are alarms
model_step.py        models of windows
summary.py           what a run did, and its exit code
run.py               a run: one step after the other, each decided by what is on disk
status.py            what a store holds and what it lacks, for people and programs

Every step compares what is wanted with what the store says and makes the difference. So a run that was killed
anywhere is continued by the next one, and a run that finds nothing to do writes its line in the history only.
"""
