"""Words, progress, exit codes. The only place that turns errors into exit codes."""
