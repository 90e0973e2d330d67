"""Who runs the fragments. An engine maps a function over them, in any order, and survives Ctrl-C."""
