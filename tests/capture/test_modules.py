"""``-m``: a module runs as under ``python -m``, and is found without importing its packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from running import environment, run_python
from uncork.capture.base.modules import find_module_file
from uncork.core.base.errors import WrongUse

TRAIN = """
import json, pickle, sys
from .names import NAME

class Kept:
    pass

assert type(pickle.loads(pickle.dumps(Kept()))) is Kept
print(json.dumps({
    "argv": sys.argv, "folder": sys.path[0], "name": __name__, "package": __package__,
    "spec": [__spec__.name, __spec__.origin, __spec__.parent], "file": __file__,
    "cached": __cached__, "loader": type(__loader__).__name__, "names": sorted(globals()),
    "is_main": sys.modules["__main__"].__dict__ is globals(), "relative": NAME,
    "modules": sorted(each for each in sys.modules if each.startswith("lab")),
}))
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose import is told in a file, with a package in it and one without a file."""
    for path in ("lab/deep", "plain/inner"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "lab/__init__.py").write_text("open('imported', 'a').write('x')\n")
    (tmp_path / "lab/deep/__init__.py").write_text("")
    (tmp_path / "lab/deep/names.py").write_text("NAME = 'a name'\n")
    for path in ("lab/deep/train.py", "lab/deep/__main__.py"):
        (tmp_path / path).write_text(TRAIN)
    (tmp_path / "plain/inner/one.py").write_text("print(__package__)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("lab.deep.train", "lab/deep/train.py"),
        ("lab.deep", "lab/deep/__main__.py"),
        ("plain.inner.one", "plain/inner/one.py"),
    ],
)
def test_it_is_found_without_being_imported(module: str, path: str, folder: Path) -> None:
    assert find_module_file(module) == path
    assert not (folder / "imported").exists()
    assert "lab" not in sys.modules


def test_one_of_the_environment_is_found(folder: Path) -> None:
    assert Path(find_module_file("json.tool")) == Path(json.__file__).with_name("tool.py")


@pytest.mark.parametrize("module", ["lab", "lab.none", "lab.deep.train.x", "none", "lab..deep", ""])
def test_one_that_is_not_there(module: str, folder: Path) -> None:
    with pytest.raises(WrongUse, match="no module"):
        find_module_file(module)


def test_one_without_python_source(folder: Path) -> None:
    with pytest.raises(WrongUse, match="has no source file"):
        find_module_file("sys")


@pytest.mark.parametrize("module", ["lab.deep.train", "lab.deep"])
def test_it_runs_as_under_python(module: str, folder: Path) -> None:
    words = ("-m", module, "--data", "my photos", "--", "-m", "x")
    plain = run_python(*words, cwd=folder)
    ours = run_python("-m", "uncork", "run", *words, cwd=folder)
    assert plain.returncode == ours.returncode == 7, ours.stderr
    assert json.loads(ours.stdout) == json.loads(plain.stdout)
    assert ours.stderr == ""


def test_an_error_of_its_package_is_the_script_s(folder: Path) -> None:
    (folder / "lab/__init__.py").write_text("raise ValueError('no data')\n")
    done = run_python("-m", "uncork", "run", "-m", "lab.deep.train", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: no data"
    assert "uncork/" not in done.stderr


def test_the_other_verbs_run_it_in_a_process_of_their_own(folder: Path) -> None:
    words = [sys.executable, "-m", "uncork", "diagnose", "-m", "lab.deep.train", "a b"]
    (folder / "lab/deep/train.py").write_text(TRAIN.replace("sys.exit(7)", ""))
    done = subprocess.run(
        words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, "it trains nothing"
    found = json.loads(done.stdout.splitlines()[0])
    assert found["argv"] == [str(folder / "lab/deep/train.py"), "a b"]
    assert (found["name"], found["package"]) == ("__main__", "lab.deep")
