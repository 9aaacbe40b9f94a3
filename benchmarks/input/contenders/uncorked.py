"""The naive pipeline, handed to ``uncork.optimize``, which may take two minutes."""

import sys
import time

from naive import dataset
from timed import run

import uncork

if __name__ == "__main__":
    begin = time.perf_counter()
    faster = uncork.optimize(dataset, epochs=int(sys.argv[2]), budget=120, quiet=True)
    prepared_s = time.perf_counter() - begin
    run(lambda number: (len(batch) for batch in faster), prepared_s=prepared_s)
