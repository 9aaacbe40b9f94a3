"""The physical limit of decoding: libjpeg-turbo and OpenCV in a bare pool of threads."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import simplejpeg
from timed import BATCH, SIDE, files, run

PATHS = files()


def load(place):
    """Decode straight into RGB, and write the result where the batch wants it."""
    path, out = place
    image = simplejpeg.decode_jpeg(Path(path).read_bytes(), fastdct=False)
    image = cv2.resize(image, (SIDE, SIDE))
    if random.random() < 0.5:
        image = image[:, ::-1]
    np.multiply(image, np.float32(1 / 255), out=out, casting="unsafe")


def epoch(number):
    """One batch after the other; all threads work on one."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(PATHS), BATCH):
            paths = PATHS[start : start + BATCH]
            batch = np.empty((len(paths), SIDE, SIDE, 3), np.float32)
            list(pool.map(load, zip(paths, batch, strict=True)))
            yield len(batch)


if __name__ == "__main__":
    cv2.setNumThreads(1)
    run(epoch)
