"""Write a set of photo-like JPEG files, one folder per class, for the other examples.

    python examples/make_photos.py DIR --count 2000 --seed 0

Downloading a real set would need the network and a licence. These files cost what photographs cost
to read: 500x375 pixels, quality 85, 4:2:0, 40 to 60 KB, detail at every scale. A class differs
from the others by its colours and by the direction and pitch of its texture, with enough spread
that a network has to learn it.

Equal arguments give equal files. A file that is there already is kept, so an interrupted run
continues where it stopped; delete the folder to start anew.
"""

from __future__ import annotations

import argparse
import io
import math
import multiprocessing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 500, 375
SMALLEST, LARGEST = 42_000, 58_000  # bytes aimed at, a little inside the promised 40 to 60 KB
QUALITY = 85


class Look(NamedTuple):
    """What makes a class recognisable."""

    sky: tuple[int, int, int]
    ground: tuple[int, int, int]
    angle: float  # of the texture's stripes, in degrees from horizontal
    pitch: float  # pixels from stripe to stripe


LOOKS = {
    "autumn": Look((205, 160, 110), (150, 80, 35), 60, 16),
    "beach": Look((130, 175, 210), (215, 190, 140), 5, 26),
    "brick": Look((165, 115, 100), (140, 75, 65), 0, 14),
    "canyon": Look((190, 140, 110), (165, 95, 60), 25, 34),
    "city": Look((140, 145, 155), (105, 105, 115), 90, 22),
    "field": Look((150, 180, 195), (125, 150, 60), 80, 10),
    "forest": Look((95, 125, 95), (50, 85, 45), 90, 36),
    "lake": Look((120, 150, 190), (60, 100, 145), 0, 40),
    "snow": Look((175, 190, 210), (215, 220, 230), 30, 20),
    "sunset": Look((225, 135, 80), (110, 65, 90), 10, 48),
}


def smooth_noise(rng: np.random.Generator, cells: int) -> np.ndarray:
    """Soft blobs of about ``WIDTH / cells`` pixels, zero mean, as an array of HEIGHT x WIDTH."""
    grid = rng.standard_normal((max(2, cells * HEIGHT // WIDTH), cells), dtype=np.float32)
    return np.asarray(Image.fromarray(grid).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


def detail(rng: np.random.Generator) -> np.ndarray:
    """Noise at every scale, fading with frequency as it does in photographs."""
    return sum(smooth_noise(rng, cells) / math.sqrt(cells) for cells in (3, 8, 20, 50, 125))


def stripes(rng: np.random.Generator, look: Look, warp: np.ndarray) -> np.ndarray:
    """The texture of a class: warped waves in its direction, -1 to 1."""
    angle = math.radians(look.angle + rng.normal(0, 8))
    pitch = look.pitch * math.exp(rng.normal(0, 0.15))
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    along = x * math.sin(angle) + y * math.cos(angle)
    return np.sin(along * (2 * math.pi / pitch) + 2.5 * warp + rng.uniform(0, 2 * math.pi))


def backdrop(rng: np.random.Generator, look: Look) -> Image.Image:
    """Sky over ground, in the colours of the class and a light that differs from photo to photo."""
    light = rng.normal(1.0, 0.12) + rng.normal(0, 0.08, 3)
    horizon = rng.uniform(0.25, 0.75)
    down = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None, None]
    share = 1 / (1 + np.exp((horizon - down) * 14))
    colours = np.asarray(look.sky) * (1 - share) + np.asarray(look.ground) * share
    rows = np.clip(colours * light, 0, 255).astype(np.uint8)
    return Image.fromarray(np.broadcast_to(rows, (HEIGHT, WIDTH, 3)).copy())


def with_objects(rng: np.random.Generator, picture: Image.Image) -> Image.Image:
    """A few things of any colour in the scene, edges slightly out of focus."""
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(2, 7)):
        x, y = rng.uniform(0, WIDTH), rng.uniform(0, HEIGHT)
        w, h = rng.uniform(15, 90, 2)
        colour = tuple(int(value) for value in rng.integers(30, 225, 3))
        if rng.random() < 0.5:
            draw.ellipse((x - w, y - h, x + w, y + h), fill=colour)
        else:
            corners = rng.uniform(-1, 1, (5, 2)) * (w, h) + (x, y)
            draw.polygon([tuple(corner) for corner in corners.tolist()], fill=colour)
    return picture.filter(ImageFilter.GaussianBlur(1.2))


def encode(pixels: np.ndarray) -> bytes:
    """As a camera would save it."""
    file = io.BytesIO()
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    picture.save(file, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return file.getvalue()


def photo(label: str, number: int, seed: int) -> bytes:
    """One JPEG file; film grain is added until its size is that of a photograph."""
    look = LOOKS[label]
    rng = np.random.default_rng([seed, sorted(LOOKS).index(label), number])
    scene = np.asarray(with_objects(rng, backdrop(rng, look)), dtype=np.float32)
    noise = detail(rng)
    scene += (22 * noise + rng.uniform(10, 22) * stripes(rng, look, noise))[..., None]
    scene += 6 * smooth_noise(rng, 12)[..., None] * rng.standard_normal(3, dtype=np.float32)
    grain = rng.standard_normal((HEIGHT, WIDTH, 1), dtype=np.float32)
    least, amount, most = 0.0, 8.0, 40.0
    for _ in range(8):
        data = encode(scene + amount * grain)
        if len(data) < SMALLEST:
            least = amount
        elif len(data) > LARGEST:
            most = amount
        else:
            break
        amount = (least + most) / 2
    return data


def write(job: tuple[Path, str, int, int]) -> None:
    """Write one photo beside its place, then rename, so that a file that exists is complete."""
    path, label, number, seed = job
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(photo(label, number, seed))
    partial.replace(path)


def missing(directory: Path, count: int, seed: int) -> list[tuple[Path, str, int, int]]:
    """What is still to be written, classes in turn."""
    labels = sorted(LOOKS)
    jobs = []
    for index in range(count):
        label, number = labels[index % len(labels)], index // len(labels)
        path = directory / label / f"{number:05d}.jpg"
        if not path.exists():
            jobs.append((path, label, number, seed))
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a set of photo-like JPEG files.")
    parser.add_argument("directory", type=Path, help="where the class folders go")
    parser.add_argument("--count", type=int, default=2000, help="files in all (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other photos")
    args = parser.parse_args()
    for label in LOOKS:
        (args.directory / label).mkdir(parents=True, exist_ok=True)
    jobs = missing(args.directory, args.count, args.seed)
    # "spawn" exists everywhere and inherits nothing that could differ from platform to platform.
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for done, _ in enumerate(pool.imap_unordered(write, jobs, chunksize=8), start=1):
            if done % 500 == 0:
                print(f"{done} of {len(jobs)} photos written", flush=True)
    print(f"{args.count} photos in {args.directory} ({len(jobs)} new)")


if __name__ == "__main__":
    main()
