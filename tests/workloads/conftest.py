"""These scripts are run by ``make truth``, never imported."""

collect_ignore_glob = ["*/*"]
