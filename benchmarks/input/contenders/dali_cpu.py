"""NVIDIA DALI on the CPU, a thread for each core."""

import os

from nvidia.dali import fn, pipeline_def, types
from timed import BATCH, SIDE, files, run

PATHS = files()


@pipeline_def(batch_size=BATCH, num_threads=os.cpu_count() or 1, device_id=None, seed=1)
def photos():
    """Reads in the order of the list."""
    encoded, _ = fn.readers.file(files=PATHS, name="photos")
    images = fn.decoders.image(encoded, device="cpu")
    images = fn.resize(images, resize_x=SIDE, resize_y=SIDE)
    return fn.crop_mirror_normalize(
        images,
        mirror=fn.random.coin_flip(),
        dtype=types.FLOAT,
        output_layout="HWC",
        std=[255.0] * 3,
    )


def epoch(number):
    """As many batches as hold all pictures."""
    for start in range(0, len(PATHS), BATCH):
        pipeline.run()
        yield min(BATCH, len(PATHS) - start)


if __name__ == "__main__":
    pipeline = photos()
    pipeline.build()
    run(epoch)
