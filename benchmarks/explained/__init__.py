"""How much of a run a diagnosis explains, on scripts with planted bottlenecks and on others."""
