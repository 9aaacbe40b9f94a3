"""PyTorch's DataLoader with a worker for each core; OpenCV decodes faster than its usual PIL."""

import os
import random

import cv2
import numpy as np
import torch
from timed import BATCH, SIDE, files, run
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    """Pictures by their number."""

    def __init__(self):
        self.paths = files()

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        image = cv2.resize(image, (SIDE, SIDE))
        if random.random() < 0.5:
            image = image[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(image)).float() / 255.0


def main():
    """Workers stay between epochs, as advised."""
    loader = DataLoader(Photos(), BATCH, num_workers=os.cpu_count() or 1, persistent_workers=True)
    run(lambda number: (len(batch) for batch in loader))


if __name__ == "__main__":
    cv2.setNumThreads(1)
    main()
