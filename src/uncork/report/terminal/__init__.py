"""A report as text for the terminal.

May import: report.content, core.
"""
