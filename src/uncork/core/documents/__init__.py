"""What is written to disk: diagnosis, plan, job, workload.

May import: core.edits, evidence, base.
"""
