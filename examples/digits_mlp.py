"""Train a small dense network on arrays in memory: the steps are so short that Python dominates.

    python examples/digits_mlp.py

Seeded throughout: with equal arguments, every run ends in the same weights, bit for bit.
"""

import argparse
import hashlib

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--samples", type=int, default=20_000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--digest", action="store_true", help="print a sha256 of the final weights")
args = parser.parse_args()

keras.utils.set_random_seed(args.seed)
draw = np.random.default_rng(args.seed)
strokes = draw.random((10, 784)) > 0.8
labels = draw.integers(0, 10, args.samples)
blurred = strokes[labels] + draw.normal(scale=1.0, size=(args.samples, 784))
digits = np.clip(blurred, 0, 1).astype("float32")

model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(digits, labels, batch_size=32, epochs=args.epochs, verbose=2)
if args.digest:
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights()))
    print(f"weights {digest.hexdigest()}")
