import os

# Before anything loads BLAS, and for this process alone. Threads of BLAS wait for each other by running in
# circles: with as many tests at once as there are cores, they make some tests five times as long.
BLAS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
os.environ |= BLAS
