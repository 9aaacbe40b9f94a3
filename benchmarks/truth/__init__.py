"""Scores what Uncork reports on workloads with a known bottleneck, like a medical test.

    python -m benchmarks.truth [NAME ...] [--tune all] [--record]

``catalog`` finds the scripts, ``processes`` runs them, ``examine`` makes one record of each,
``scores`` sums them up, ``page`` writes them down. What was examined already, by the same sources,
is not examined again.
"""
