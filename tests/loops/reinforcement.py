"""Balance a pole on a cart by REINFORCE: play with the policy of the day, then learn from it.

Thirty-two carts roll at once, in NumPy. What the policy does while it plays is compiled; what it
learns afterwards is not.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CARTS, MOMENTS, PASSES, DISCOUNT = 32, 24, 8, 0.98

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path, help="not read: the carts are the data")
parser.add_argument("--epochs", type=int, default=1000)
args = parser.parse_args()
keras.utils.set_random_seed(204)
rng = np.random.default_rng(204)

policy = keras.Sequential(
    [
        keras.Input((4,)),
        layers.Dense(64, activation="tanh"),
        layers.Dense(64, activation="tanh"),
        layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(1e-3, clipnorm=1.0)
optimizer.build(policy.trainable_variables)
act = tf.function(lambda states: tf.sigmoid(policy(states))[:, 0])


def push(states, right):
    """Move all carts by a fiftieth of a second; those that fell start anew."""
    x, speed, angle, turn = states.T
    force = np.where(right, 10.0, -10.0)
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (force + 0.05 * turn**2 * sine) / 1.1
    bend = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    run = pushed - 0.05 * bend * cosine / 1.1
    moved = np.stack([x + speed / 50, speed + run / 50, angle + turn / 50, turn + bend / 50], 1)
    fell = (abs(moved[:, 0]) > 2.4) | (abs(moved[:, 2]) > 0.2)
    moved[fell] = rng.uniform(-0.05, 0.05, (int(fell.sum()), 4))
    return moved, fell


def play(states):
    seen, done, won = [], [], []
    for _ in range(MOMENTS):
        right = rng.random(CARTS) < act(tf.constant(states, tf.float32)).numpy()
        seen.append(states)
        done.append(right)
        states, fell = push(states, right)
        won.append(np.where(fell, -1.0, 0.1))
    returns = np.zeros((MOMENTS + 1, CARTS))
    for moment in reversed(range(MOMENTS)):
        returns[moment] = won[moment] + DISCOUNT * returns[moment + 1] * (won[moment] > 0)
    worth = (returns[:-1] - returns[:-1].mean()) / (returns[:-1].std() + 1e-6)
    played = (np.concatenate(seen), np.concatenate(done), worth.reshape(-1))
    return states, [part.astype("float32") for part in played]


def learn(states, right, worth):  # bottleneck: eager_step
    with tf.GradientTape() as tape:
        logits = policy(states, training=True)[:, 0]
        unlikely = tf.nn.sigmoid_cross_entropy_with_logits(right, logits)
        loss = tf.reduce_mean(unlikely * worth)
    gradients = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(gradients, policy.trainable_variables, strict=True))
    return loss


states = rng.uniform(-0.05, 0.05, (CARTS, 4))
started = time.perf_counter()
for epoch in range(args.epochs):
    states, played = play(states)
    for part in np.array_split(rng.permutation(CARTS * MOMENTS), PASSES):
        loss = learn(*(tf.constant(column[part]) for column in played))
    print(f"epoch {epoch + 1}: loss {loss:.6f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.6f}")
policy.save_weights("trained.weights.h5")
print(f"trained {CARTS * MOMENTS * args.epochs} samples in {seconds:.2f} s")
