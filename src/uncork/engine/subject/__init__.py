"""What all subjects (trainings under examination) share.

May import: engine.process and below engine.
"""
