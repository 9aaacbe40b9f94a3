"""Learn to balance a pole by deep Q-learning; ``predict`` is called for every move.

The agent asks its network for the next move of one state, and for what the moves of a batch from
its memory are worth; ``predict`` is the method that tutorials show for that. It is made for large
data: each call builds a pipeline of its array, traces functions over it and throws all of it away,
which takes a hundred times as long as the answer. TensorFlow issue 44711 and Keras issue 13118 are
about the time and the memory that it takes. There are no files to read: the pole is computed.
"""

import argparse
import collections
import random
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path, help="not read")
parser.add_argument("--epochs", type=int, default=120, help="of twenty moves")
args = parser.parse_args()
keras.utils.set_random_seed(16)
BATCH, MOVES, DISCOUNT = 32, 20, 0.95


class Pole:
    """A pole on a cart, which is pushed to the left or to the right for a fiftieth of a second."""

    def reset(self):
        self.state, self.moves = np.random.uniform(-0.05, 0.05, 4), 0
        return self.state

    def push(self, right):
        _, speed, angle, turn = self.state
        cosine, sine = np.cos(angle), np.sin(angle)
        force = ((10.0 if right else -10.0) + 0.05 * turn**2 * sine) / 1.1
        turning = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        change = np.array([speed, force - 0.05 * turning * cosine / 1.1, turn, turning])
        self.state, self.moves = self.state + 0.02 * change, self.moves + 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state, fell or self.moves >= 200


model = keras.Sequential([keras.Input((4,))])
model.add(layers.Dense(24, activation="relu"))
model.add(layers.Dense(24, activation="relu"))
model.add(layers.Dense(2))
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")

pole, memory, exploring = Pole(), collections.deque(maxlen=2_000), 1.0
state = pole.reset()
for _ in range(2 * BATCH):  # something to remember
    right = random.random() < 0.5
    after, over = pole.push(right)
    memory.append((state, int(right), after, over))
    state = pole.reset() if over else after

started = time.perf_counter()
for epoch in range(args.epochs):
    for _ in range(MOVES):
        if random.random() < exploring:
            move = random.randrange(2)
        else:
            move = int(np.argmax(model.predict(state[None], verbose=0)))  # bottleneck
        after, over = pole.push(move)
        memory.append((state, move, after, over))
        state = pole.reset() if over else after
        states, moves, later, ended = map(np.array, zip(*random.sample(memory, BATCH), strict=True))
        worth = model.predict(states, verbose=0)  # bottleneck
        best = model.predict(later, verbose=0).max(axis=1)  # bottleneck
        worth[np.arange(BATCH), moves] = 1 + DISCOUNT * best * ~ended
        loss = model.train_on_batch(states, worth)
        exploring = max(0.05, 0.995 * exploring)
    print(f"epoch {epoch + 1}: loss {loss:.4f}")
seconds = time.perf_counter() - started

print(f"loss {loss:.4f}")
model.save_weights("trained.weights.h5")
print(f"trained {args.epochs * MOVES * BATCH} samples in {seconds:.2f} s")
