"""Data of the shapes that introductions download, made by chance but with something to learn.

Imported first by a copy of each script: from then on Keras finds these where it would ask a server.
"""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

Maker = Callable[[Path], None]
_WORDS: Final = ["down", "go", "left", "no", "right", "stop", "up", "yes"]
_FLOWERS: Final = ["daisy", "dandelion", "roses", "sunflowers", "tulips"]
_COLUMNS: Final = (
    '"Date Time","p (mbar)","T (degC)","Tpot (K)","Tdew (degC)","rh (%)","VPmax (mbar)",'
    '"VPact (mbar)","VPdef (mbar)","sh (g/kg)","H2OC (mmol/mol)","rho (g/m**3)","wv (m/s)",'
    '"max. wv (m/s)","wd (deg)"'
)


def _pictures(count: int, side: int, channels: int) -> tuple[Any, Any]:
    """Of ten kinds: coarse patterns, with noise."""
    rng = np.random.default_rng(count)
    small = np.random.default_rng(7).integers(0, 255, (10, channels, side // 4, side // 4))
    kinds = rng.integers(0, 10, count).astype("uint8")
    pictures = np.kron(small[kinds], np.ones((1, 1, 4, 4))) + rng.normal(
        0, 20, (count, channels, side, side)
    )
    return np.clip(pictures, 0, 255).astype("uint8"), kinds


def _arrays(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _mnist(path: Path) -> None:
    (x, y), (x_test, y_test) = _pictures(60_000, 28, 1), _pictures(10_000, 28, 1)
    _arrays(path, x_train=x[:, 0], y_train=y, x_test=x_test[:, 0], y_test=y_test)


def _fashion(count: int, *, labels: bool) -> Maker:
    def make(path: Path) -> None:
        x, y = _pictures(count, 28, 1)
        head = struct.pack(">II", 2049, count)
        if not labels:
            head = struct.pack(">IIII", 2051, count, 28, 28)
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(head + (y if labels else x).tobytes())

    return make


def _cifar(path: Path) -> None:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
            x, y = _pictures(10_000 + number, 32, 3)
            batch = {b"data": x[:10_000].reshape(10_000, -1), b"labels": y[:10_000].tolist()}
            _add(tar, f"cifar-10-batches-py/{name}", pickle.dumps(batch))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _texts(count: int, kinds: int, longest: int) -> tuple[Any, Any]:
    """Numbers of words, rare ones rarely; the kind moves all of them a little."""
    rng = np.random.default_rng(count + kinds)
    y, x = rng.integers(0, kinds, count), np.empty(count, object)
    for n in range(count):
        words = np.minimum(rng.zipf(1.3, int(rng.integers(40, longest))), 20_000) + 3 * y[n]
        x[n] = [int(word) for word in words]
    return x, y


def _imdb(path: Path) -> None:
    (x, y), (x_test, y_test) = _texts(25_000, 2, 400), _texts(25_001, 2, 400)
    _arrays(path, x_train=x, y_train=y, x_test=x_test[:25_000], y_test=y_test[:25_000])


def _reuters(path: Path) -> None:
    x, y = _texts(11_228, 46, 250)
    _arrays(path, x=x, y=y)


def _numbered(path: Path) -> None:
    path.write_text(json.dumps({f"word{n}": n for n in range(1, 88_000)}))


def _houses(rows: int, columns: int) -> Maker:
    def make(path: Path) -> None:
        rng = np.random.default_rng(8)
        x = rng.normal(size=(rows, columns)).astype("float32")
        _arrays(path, x=x, y=x @ rng.normal(size=columns).astype("float32") + 20)

    return make


def _photographs(count: int) -> list[bytes]:
    import tensorflow as tf  # noqa: PLC0415 - some scripts set its environment first

    rng = np.random.default_rng(9)
    coarse = rng.integers(0, 255, (count, 15, 20, 3)).astype("float32")
    return [
        bytes(tf.io.encode_jpeg(tf.cast(tf.image.resize(each, (240, 320)), tf.uint8)).numpy())
        for each in coarse
    ]


def _flowers(path: Path) -> None:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for kind in _FLOWERS:
            for number, content in enumerate(_photographs(200)):
                _add(tar, f"flower_photos/{kind}/{number}.jpg", content)


def _speech(path: Path) -> None:
    rng = np.random.default_rng(11)
    with zipfile.ZipFile(path, "w") as file:
        for kind, word in enumerate(_WORDS, 1):
            for number in range(1000):
                tone = np.sin(np.arange(16_000) * kind / 20) * 8000 + rng.normal(0, 500, 16_000)
                sound = io.BytesIO()
                with wave.open(sound, "wb") as written:
                    written.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
                    written.writeframes(tone.astype("<i2").tobytes())
                file.writestr(f"mini_speech_commands/{word}/{number}.wav", sound.getvalue())
        file.writestr("mini_speech_commands/README.md", "made by chance\n")


def _climate(path: Path) -> None:
    rows = np.cumsum(np.random.default_rng(12).normal(size=(420_000, 14)), 0) / 50 + 10
    begin, step = datetime.datetime(2009, 1, 1), datetime.timedelta(minutes=10)
    lines = (
        f"{begin + n * step:%d.%m.%Y %H:%M:%S}," + ",".join(f"{value:.2f}" for value in row)
        for n, row in enumerate(rows)
    )
    path.write_text(_COLUMNS + "\n" + "\n".join(lines))


def _particles(path: Path) -> None:
    """Rows of a kind and 28 numbers that tell it, a little."""
    rng = np.random.default_rng(13)
    kinds = rng.integers(0, 2, 40_000)
    rows = rng.normal(size=(40_000, 28)) + 0.2 * kinds[:, None]
    with gzip.open(path, "wt", compresslevel=1) as file:
        for kind, row in zip(kinds, rows, strict=True):
            file.write(f"{kind:.1f}," + ",".join(f"{value:.6f}" for value in row) + "\n")


def _reviews(path: Path) -> None:
    """Texts in files: of each kind some words are more common."""
    rng = np.random.default_rng(14)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for part in ("train", "test"):
            for mood, kind in enumerate(("neg", "pos", "unsup")):
                names = [f"{n}_{1 + n % 10}.txt" for n in range(2 if mood > 1 else 2500)]
                for name in {*names, "1181_9.txt"}:
                    words = rng.zipf(1.3, int(rng.integers(60, 400))) % 20_000 + 3 * mood
                    text = " ".join(f"word{word}" for word in words)
                    _add(tar, f"aclImdb/{part}/{kind}/{name}", f"{text}.<br />".encode())


def _zipped(maker: Maker, name: str) -> Maker:
    def make(path: Path) -> None:
        maker(path.with_name(name))
        with zipfile.ZipFile(path, "w") as file:
            file.write(path.with_name(name), name)
        path.with_name(name).unlink()

    return make


def _unpacked(path: Path) -> None:
    path.mkdir()
    _speech(path / "made.zip")
    with zipfile.ZipFile(path / "made.zip") as file:
        file.extractall(path)
    (path / "made.zip").unlink()


def _cats_and_dogs(path: Path) -> None:
    for part in ("train", "validation", "test"):
        for kind in ("cat", "dog"):
            (path / part / kind).mkdir(parents=True)
            for number, content in enumerate(_photographs(200)):
                (path / part / kind / f"{kind}.{number}.jpg").write_bytes(content)


# What Keras asks a server for, by the end of the address.
DOWNLOADS: Final[dict[str, Maker]] = {
    "mnist.npz": _mnist,
    "train-images-idx3-ubyte.gz": _fashion(60_000, labels=False),
    "train-labels-idx1-ubyte.gz": _fashion(60_000, labels=True),
    "t10k-images-idx3-ubyte.gz": _fashion(10_000, labels=False),
    "t10k-labels-idx1-ubyte.gz": _fashion(10_000, labels=True),
    "cifar-10-python.tar.gz": _cifar,
    "imdb.npz": _imdb,
    "imdb_word_index.json": _numbered,
    "reuters.npz": _reuters,
    "boston_housing.npz": _houses(506, 13),
    "california_housing.npz": _houses(20_640, 8),
    "flower_photos.tgz": _flowers,
    "mini_speech_commands.zip": _speech,
    "HIGGS.csv.gz": _particles,
    "aclImdb_v1.tar.gz": _reviews,
    "jena_climate_2009_2016.csv.zip": _zipped(_climate, "jena_climate_2009_2016.csv"),
}
# What scripts expect to lie beside them.
FOLDERS: Final[dict[str, Maker]] = {
    "jena_climate_2009_2016.csv": _climate,
    "cats_vs_dogs_small": _cats_and_dogs,
    "data": _unpacked,
}
STORE: Final = "UNCORK_INTRODUCTIONS"


def made(name: str, makers: dict[str, Maker], store: Path) -> Path:
    """Where it lies, made the first time."""
    path, part = store / name, store / f"part-{os.getpid()}-{name}"
    if not path.exists():
        store.mkdir(parents=True, exist_ok=True)
        makers[name](part)
        part.rename(path)
    return path


def serve(store: Path) -> None:
    """From here on Keras finds what it would download in a folder."""
    from keras.src.utils import file_utils  # noqa: PLC0415 - loads TensorFlow

    def fetched(address: str, target: str, *_: object) -> None:
        name = address.rpartition("/")[2]
        if name not in DOWNLOADS:
            raise OSError(f"nothing stands in for {address}")
        shutil.copy(made(name, DOWNLOADS, store), target)

    file_utils.urlretrieve = fetched
    file_utils.validate_file = lambda *_args, **_options: True  # it has another digest


if STORE in os.environ:
    serve(Path(os.environ[STORE]))
