"""What stays when Uncork is killed."""
