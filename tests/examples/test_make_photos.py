from __future__ import annotations

from pathlib import Path

from PIL import Image

from examples.conftest import COUNT, Run


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*.jpg"))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(f.relative_to(directory)): f.read_bytes() for f in files_in(directory)}


def test_every_class_gets_its_share(photos: Path) -> None:
    assert len(files_in(photos)) == COUNT
    assert [len(list(folder.iterdir())) for folder in photos.iterdir()] == [COUNT // 10] * 10


def test_files_have_the_size_of_photographs(photos: Path) -> None:
    fitting = [f for f in files_in(photos) if 40_000 <= f.stat().st_size <= 60_000]
    assert len(fitting) >= 0.95 * COUNT


def test_pictures_have_the_shape_and_coding_of_photographs(photos: Path) -> None:
    for file in files_in(photos):
        with Image.open(file) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (500, 375))
            chroma_halved = picture.layer[0][1:3]  # sampling factors of the first component
            assert chroma_halved == (2, 2)
            picture.load()


def test_equal_arguments_give_equal_bytes(photos: Path, run: Run, tmp_path: Path) -> None:
    run("make_photos.py", tmp_path, "--count", "20", "--seed", "3")
    first = contents(tmp_path)
    assert first == {name: contents(photos)[name] for name in first}
    assert len(set(first.values())) == 20


def test_another_seed_gives_other_photos(photos: Path, run: Run, tmp_path: Path) -> None:
    run("make_photos.py", tmp_path, "--count", "10", "--seed", "4")
    before = contents(photos)
    assert all(before[name] != data for name, data in contents(tmp_path).items())


def test_an_interrupted_run_is_continued(photos: Path, run: Run, tmp_path: Path) -> None:
    run("make_photos.py", tmp_path, "--count", "20", "--seed", "3")
    kept, lost = files_in(tmp_path)[0], files_in(tmp_path)[-1]
    lost.unlink()
    written_at = kept.stat().st_mtime_ns
    said = run("make_photos.py", tmp_path, "--count", "20", "--seed", "3")
    assert "20 photos" in said
    assert "(1 new)" in said
    assert kept.stat().st_mtime_ns == written_at
    assert lost.read_bytes() == contents(photos)[str(lost.relative_to(tmp_path))]


def test_nothing_is_left_half_written(photos: Path) -> None:
    assert not list(photos.rglob("*.partial"))
