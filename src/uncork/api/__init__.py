"""The public Python interface: functions, and what they return.

May import: engine, report and below.
"""
