"""One file for each contender: ``python FILE PHOTOS EPOCHS`` prints one line of JSON.

All do the same: read and decode JPEG files, resize to 224 by 224, flip every other picture at
random, scale to 0 ... 1, and give batches of 32. A peer's file imports nothing of Uncork, because
it runs in a virtual environment of its own.
"""
