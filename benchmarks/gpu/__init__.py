"""The road on an accelerator."""
