"""Virtual environments of the peers: python -m benchmarks.input.peers FOLDER."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

# What each contender needs; those that are not named run where Uncork is installed.
PEERS: Final[dict[str, tuple[str, ...]]] = {
    "torch_loader": ("torch==2.13.0", "opencv-python-headless", "numpy"),
    "grain_loader": ("grain", "opencv-python-headless", "numpy"),
    "dali_cpu": ("nvidia-dali-cuda120", "numpy"),
    "thread_pool": ("simplejpeg", "opencv-python-headless", "numpy"),
}


def python_of(contender: str, folder: Path) -> str:
    """The interpreter that runs a contender."""
    return str(folder / contender / "bin" / "python") if contender in PEERS else sys.executable


def make(folder: Path) -> None:
    """Each environment that is not there yet."""
    for name, needs in PEERS.items():
        done = folder / name / ".ready"
        if not done.exists():
            venv.create(folder / name, with_pip=True, clear=True)
            pip = [python_of(name, folder), "-m", "pip", "install", "--quiet", *needs]
            subprocess.run(pip, check=True)
            done.touch()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
