"""Grain with threads that read ahead: OpenCV, which decodes, lets other threads run."""

import cv2
import grain
import numpy as np
from timed import BATCH, SIDE, files, run


def load(path):
    """The part without chance."""
    image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    return cv2.resize(image, (SIDE, SIDE))


class Flip(grain.transforms.RandomMap):
    """Half of all pictures, as the sample's own generator says."""

    def random_map(self, element, rng):
        """Flip, then scale."""
        image = element[:, ::-1] if rng.random() < 0.5 else element
        return image.astype(np.float32) / 255.0


def epoch(number):
    """One pass with seeds of its own."""
    photos = grain.MapDataset.source(files()).seed(number).map(load).random_map(Flip())
    return (len(batch) for batch in photos.to_iter_dataset().batch(BATCH))


if __name__ == "__main__":
    cv2.setNumThreads(1)
    run(epoch)
