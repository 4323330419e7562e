from __future__ import annotations

from pathlib import Path

import pytest

from fibernb.client.ignoring import Ignored


@pytest.mark.parametrize(
    ("pattern", "path", "is_directory", "ignored"),
    [
        ("*.log", "a.log", False, True),
        ("*.log", "deep/er/a.log", False, True),
        ("*.log", "a.logs", False, False),
        ("data/", "data", True, True),
        ("data/", "data", False, False),
        ("data/", "deep/data", True, True),
        ("/data", "data", True, True),
        ("/data", "deep/data", True, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("a/**/c", "a/c", False, True),
        ("a/**/c", "a/x/y/c", False, True),
        ("**/c", "x/c", False, True),
        ("a/**", "a/x/y", False, True),
        ("a?c", "abc", False, True),
        ("a?c", "a/c", False, False),
        ("[ab].txt", "a.txt", False, True),
        ("[!ab].txt", "a.txt", False, False),
        ("a.b", "aXb", False, False),
        ("# note", "# note", False, False),
        ("", "x", False, False),
    ],
)
def test_patterns(pattern: str, path: str, is_directory: bool, ignored: bool) -> None:
    assert Ignored([pattern]).matches(Path(path), is_directory) is ignored


def test_the_last_one_that_matches_decides() -> None:
    ignored = Ignored(["*.txt", "!keep.txt"])
    assert ignored.matches(Path("x.txt"), False)
    assert not ignored.matches(Path("keep.txt"), False)


def test_files_of_patterns_hold_below_their_directory(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    ignored = Ignored()
    ignored.read(tmp_path / ".gitignore", Path("inner"))
    ignored.read(tmp_path / "nowhere", Path())
    assert ignored.matches(Path("inner/a.tmp"), False)
    assert not ignored.matches(Path("a.tmp"), False)
    assert ignored.matches(Path("inner/__pycache__"), True)
