"""What to try: pure functions from a diagnosis to edits; one file each, a folder for each stage.

May import: core.
"""
