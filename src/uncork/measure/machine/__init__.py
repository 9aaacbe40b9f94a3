"""CPU, memory, devices, and their limits.

May import: below measure.
"""
