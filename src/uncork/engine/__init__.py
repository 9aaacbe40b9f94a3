"""The verbs, and the two processes behind them: a parent without TensorFlow, a child with it."""
