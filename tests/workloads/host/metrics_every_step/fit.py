"""Take the noise out of photographs; the quality measures are computed in every training step.

``metrics=[...]`` of ``compile`` serves training and evaluation alike. The structural similarity is
wanted once, for the test photographs, but Keras computes it for every training batch too: a
convolution with an 11x11 window over both images, dearer than the small network itself. There is
no switch for it; Keras issue 16809 asks for one.
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
keras.utils.set_random_seed(11)

photos = keras.utils.image_dataset_from_directory(
    args.data / "photos",
    labels=None,
    image_size=(128, 128),
    batch_size=None,
    verbose=False,
    seed=11,
)
clean = np.stack(list(photos.as_numpy_iterator())) / 255
noise = np.random.default_rng(11).standard_normal(clean.shape, dtype="float32") / 10
noisy = np.clip(clean + noise, 0, 1)


def psnr(y_true, y_pred):
    return tf.image.psnr(y_true, y_pred, max_val=1.0)


def ssim(y_true, y_pred):
    return tf.image.ssim(y_true, y_pred, max_val=1.0)


inputs = keras.Input((128, 128, 3))
patches = layers.Conv2D(32, 4, strides=4, activation="relu")(inputs)
x = layers.Conv2D(48, 3, strides=2, padding="same", activation="relu")(patches)
x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
x = layers.concatenate([layers.UpSampling2D()(x), patches])
x = layers.Conv2DTranspose(3, 4, strides=4)(x)
model = keras.Model(inputs, layers.add([inputs, x]))
model.compile("adam", loss="mae", metrics=[psnr, ssim])  # bottleneck

started = time.perf_counter()
history = model.fit(noisy[80:], clean[80:], batch_size=16, epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - started

quality = model.evaluate(noisy[:80], clean[:80], batch_size=16, verbose=0, return_dict=True)
print(f"loss {history.history['loss'][-1]:.4f}")
print(f"test: PSNR {quality['psnr']:.2f} dB, SSIM {quality['ssim']:.3f}")
model.save_weights("trained.weights.h5")
print(f"trained {len(clean[80:]) * args.epochs} samples in {seconds:.2f} s")
