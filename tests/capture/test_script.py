"""A script must not be able to tell whether Python or Uncork runs it."""

from __future__ import annotations

import linecache

import pytest

from uncork.capture.script import _lay_at

SCRIPTS = {
    "what it sees": """
        import os, sys
        print(__name__, __file__, sys.argv, os.getcwd(), sys.path)
        print({k: type(v).__name__ for k, v in globals().items()})
        print(__spec__, __cached__, __loader__.get_filename("__main__"))
        print(sys.modules["__main__"].__dict__ is globals())
        """,
    "annotations are evaluated": """
        def f(x: print("evaluated") = 1) -> None: ...
        x: int = 3
        print(f.__annotations__, __annotations__)
        """,
    "main guard": """
        if __name__ == "__main__":
            print("main")
        """,
    "reads stdin": """
        import sys
        print(input("? "), sys.stdin.read())
        """,
    "exit 0": "import sys; sys.exit(0)",
    "exit 3": "import sys; sys.exit(3)",
    "exit None": "import sys; sys.exit()",
    "exit text": "import sys; sys.exit('no data')",
    "argparse error": """
        import argparse
        argparse.ArgumentParser().parse_args(["--unknown"])
        """,
    "raises": """
        def outer():
            raise ValueError("two\\nlines")
        outer()
        """,
    "raises a chain": """
        def inner():
            {}["key"]
        try:
            inner()
        except KeyError as error:
            raise RuntimeError("outer") from error
        """,
    "raises no Exception": """
        class Odd(BaseException): pass
        raise Odd
        """,
    "syntax error": """
        print("never")
        def broken(:
        """,
    "raises in a thread": """
        import threading
        def work():
            raise ValueError("in a thread")
        thread = threading.Thread(target=work, name="worker")
        thread.start(); thread.join()
        print("goes on")
        """,
    "finally and atexit": """
        import atexit, __main__
        atexit.register(lambda: print("exit handler", __main__.VALUE))
        VALUE = 5
        try:
            raise ValueError("late")
        finally:
            print("finally")
        """,
    "own excepthook": """
        import sys
        def hook(kind, error, traceback):
            print("hooked", kind.__name__, error, traceback.tb_frame.f_code.co_name)
        sys.excepthook = hook
        raise ValueError("mine")
        """,
    "deprecation in main": """
        import warnings
        warnings.warn("old", DeprecationWarning)
        """,
    "pickles its classes": """
        import pickle
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: int
        print(pickle.loads(pickle.dumps(Point(3))), Point.__module__)
        """,
    "reads its source": """
        import inspect
        def f():
            return 1  # here
        print(inspect.getsource(f), inspect.getmodule(f).__name__)
        """,
    "spawns processes": """
        import multiprocessing as mp, sys
        class Task:
            def __call__(self): return mp.current_process().name != "MainProcess"
        def work(task): return task(), [m for m in sys.modules if m.startswith("uncork")]
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [Task()]))
        """,
    "forks": """
        import os
        if os.fork() == 0:
            print("child", flush=True)
            os._exit(0)
        os.wait()
        print("parent")
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_same_as_python(name, write, plain, uncork):
    script = write(SCRIPTS[name])
    args = ["train.py", "--epochs", "3", "-v"]
    expected = plain(*args, stdin="first\nrest\n")
    got = uncork("pass", *args, stdin="first\nrest\n")
    assert script.exists()
    assert (got.stdout, got.stderr, got.returncode) == (
        expected.stdout,
        expected.stderr,
        expected.returncode,
    )


def test_script_elsewhere_behind_a_link(write, plain, uncork, tmp_path):
    write(
        "import helper, sys; print(helper.NAME, sys.path[0], __file__, sys.argv)", "real/train.py"
    )
    write("NAME = 'beside the script'", "real/helper.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "train.py")
    assert uncork("pass", "link.py").stdout == plain("link.py").stdout != ""


def test_local_module_that_raises_shows_its_frames(write, plain, uncork):
    write("import broken")
    write("def f():\n    raise ValueError(1)\nf()", "broken.py")
    got = uncork("pass", "train.py")
    assert got.stderr == plain("train.py").stderr
    assert "broken.py" in got.stderr


def test_imports_nothing_the_script_does_not(write, uncork):
    write("""
        import sys
        print([m for m in ("tensorflow", "keras", "numpy") if m in sys.modules])
        """)
    assert uncork("tell", "train.py").stdout == "[]\n"


def test_error_in_uncork_is_not_blamed_on_the_script():
    from uncork.capture.base.stop import ScriptStopper  # noqa: PLC0415
    from uncork.pycode.frames.training_line import strip_uncork_frames  # noqa: PLC0415

    try:
        ScriptStopper().run_guarded(None)  # type: ignore[arg-type]
    except TypeError as error:
        strip_uncork_frames(error)
        files = []
        traceback = error.__traceback__
        while traceback:
            files.append(traceback.tb_frame.f_code.co_filename)
            traceback = traceback.tb_next
    assert files[-1].endswith("stop.py")


def test_who_reads_the_file_again_gets_the_text_that_runs(tmp_path, monkeypatch):
    """AutoGraph does, for the functions of the script itself."""
    monkeypatch.setattr(linecache, "updatecache", linecache.updatecache)
    monkeypatch.setattr(linecache, "cache", {})
    path, other = tmp_path / "train.py", tmp_path / "other.py"
    path.write_text("on disk\n")
    other.write_text("another file\n")
    _lay_at(str(path), b"as it runs\n")
    assert linecache.updatecache(str(path)) == ["as it runs\n"]
    assert linecache.getline(str(path), 1) == "as it runs\n"
    assert linecache.updatecache(str(other)) == ["another file\n"]
