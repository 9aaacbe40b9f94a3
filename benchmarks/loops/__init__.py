"""Custom training loops of ten styles, diagnosed, tuned, and run under their plans."""
