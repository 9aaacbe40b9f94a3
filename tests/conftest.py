"""Settings that must be in place before TensorFlow is imported by any test."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Run as a user would run them, never imported.
collect_ignore_glob = ["loops/*.py"]
