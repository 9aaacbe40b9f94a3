"""What Uncork itself costs a training that it changes nothing of."""
