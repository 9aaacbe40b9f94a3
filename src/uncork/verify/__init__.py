"""Is it still right? One file for each guarantee; ``not passed`` is the default answer."""
