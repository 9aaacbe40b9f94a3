"""A report as one HTML page; its templates lie here.

May import: report.content, report.redaction, core.
"""
