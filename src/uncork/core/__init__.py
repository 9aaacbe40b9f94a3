"""The nouns: frozen records and pure functions over them.

Nothing here imports TensorFlow, NumPy or any other layer of Uncork. A saved diagnosis or plan can
therefore be read, drawn and checked on a machine that has none of them.
"""
