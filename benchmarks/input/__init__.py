"""How fast photographs become batches: by tf.data, by what Uncork makes of it, by peers."""
