"""Scripts that others wrote: introductions to TensorFlow and Keras, tuned as they stand.

The workloads of ``make truth`` are ours, and rules were mended by them. These were not: they are
what people learn from, and begin with. Nothing of them lies here: they are read from checkouts, and
where they would download data they get made ones of the same shape.
"""
