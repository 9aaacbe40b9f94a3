"""Distil a photograph network into one of its own size by the features of a middle layer.

Keras 3.15's ``Distiller`` runs the student twice in every step when a ``FeatureDistillation``
names a layer: once for the predictions, once more, through another model, for the features. Both
passes are differentiated, so the student costs double, and its batch normalisation moves its
statistics twice a step. (Read in ``keras/src/distillation/distiller.py``, ``compute_loss``, and
measured: see ``_extract_all_student_features``.)
"""

import argparse
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=40)
args = parser.parse_args()
keras.utils.set_random_seed(33)
keras.config.set_dtype_policy("mixed_bfloat16")

SIZE = 72
paths = sorted((args.data / "photos").glob("*/*.jpg"))
names = sorted({path.parent.name for path in paths})


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.image.resize(image, (80, 80)), tf.uint8), label


def vary(step, batch):
    """Another excerpt of the photographs in each step, so the teacher has to look again."""
    images, labels = batch
    y, x = tf.unstack(tf.random.stateless_uniform((2,), (33, step), 0, 81 - SIZE, tf.int32))
    return images[:, y : y + SIZE, x : x + SIZE], labels


labels = [names.index(path.parent.name) for path in paths]
train = (
    tf.data.Dataset.from_tensor_slices(([str(path) for path in paths], labels))
    .map(load, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(len(paths), seed=33)
    .batch(24)
    .repeat()
    .enumerate()
    .map(vary, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)


def network(width, name):
    return keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(width, 5, strides=2, activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2D(width, 3, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu", name="features"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(names), dtype="float32"),
        ],
        name=name,
    )


teacher, student = network(40, "teacher"), network(40, "student")
if (args.data / "teacher.weights.h5").exists():
    teacher.load_weights(args.data / "teacher.weights.h5")

distiller = keras.distillation.Distiller(
    teacher,
    student,
    keras.distillation.FeatureDistillation("mse", "features", "features"),  # bottleneck
    student_loss_weight=0.7,
)
distiller.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

start = time.perf_counter()
history = distiller.fit(train, epochs=args.epochs, steps_per_epoch=len(paths) // 24, verbose=2)
seconds = time.perf_counter() - start

print(f"loss {history.history['loss'][-1]:.4f}")
student.save_weights("trained.weights.h5")
print(f"trained {len(paths) * args.epochs} samples in {seconds:.2f} s")
