"""Pipelines of other kinds than photographs: records, tables, words and sound.

Each module has two functions that take the directory which ``tests/workloads/data.py`` writes:
``naive`` gives the dataset as introductions write it, ``hand_tuned`` the one that an expert would
make of it, with the same elements in the same order where nothing is drawn at random.
"""
