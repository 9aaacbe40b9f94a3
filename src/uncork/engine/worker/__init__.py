"""The worker process: one job for each file; a job ends the script when it has its result.

May import: engine.apply, engine.tune and below.
"""
