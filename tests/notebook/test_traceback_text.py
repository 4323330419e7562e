"""How a traceback's text becomes what a notebook shows."""

from __future__ import annotations

import json
import traceback

import pytest

from fibernb.notebook.snapshot import without_escapes
from fibernb.notebook.traceback_text import shown

USER = '  File "In[3]", line 2, in f\n    return g(1)\n           ^^^^\n'
LIBRARY = '  File "/x/lib/python3.12/json/decoder.py", line 353, in raw_decode\n    obj = scan(s)\n'
PACKAGE = '  File "/x/site-packages/pandas/core/apply.py", line 9, in apply\n    return f(x)\n'
HEAD = "Traceback (most recent call last):\n"


def name_of_file(file: str) -> str:
    return "Cell In[1]" if file == "/tmp/ipykernel_1/2.py" else f'File "{file}"'


def plain(text: str, *, folds: bool = True) -> str:
    return without_escapes(shown(text, name_of_file, folds=folds))


def test_frames_of_the_user_stay() -> None:
    text = f"{HEAD}{USER}ValueError: bad"
    assert plain(text) == f"{HEAD}  Cell In[3], line 2, in f\n    return g(1)\n           ^^^^\nValueError: bad"


@pytest.mark.parametrize("file", ["/tmp/ipykernel_1/2.py", "/project/work.py", "In[2]"])
def test_names_of_files(file: str) -> None:
    name = "Cell In[2]" if file == "In[2]" else name_of_file(file)
    assert plain(f'  File "{file}", line 1, in <module>\n    f()') == f"  {name}, line 1\n    f()"


def test_frames_of_libraries_are_folded() -> None:
    text = f"{HEAD}{USER}{PACKAGE}{PACKAGE}{LIBRARY}{USER}{PACKAGE}ValueError: bad"
    lines = plain(text).splitlines()
    assert lines[4] == "  … json/decoder.py, line 353, in raw_decode (the last of 3 frames of libraries)"
    assert lines[5:] == [
        *USER.replace('File "In[3]"', "Cell In[3]").splitlines(),
        "  … pandas/core/apply.py, line 9, in apply",
        "ValueError: bad",
    ]
    assert plain(text, folds=False).count("return f(x)") == 3


def test_nothing_is_folded_where_all_is_of_libraries() -> None:
    assert "obj = scan(s)" in plain(f"{HEAD}{LIBRARY}ValueError: bad")


def test_a_frozen_module_is_a_library() -> None:
    text = f'{HEAD}{USER}  File "<frozen importlib._bootstrap>", line 1204, in _gcd_import\nImportError: no'
    assert "  … importlib._bootstrap, line 1204, in _gcd_import\nImportError: no" in plain(text)


def test_lines_between_frames_stay() -> None:
    text = f"{HEAD}{USER}  [Previous line repeated 996 more times]\nRecursionError: deep\nwith a second line"
    assert plain(text).endswith("  [Previous line repeated 996 more times]\nRecursionError: deep\nwith a second line")


def test_messages_that_look_like_frames_stay() -> None:
    text = f'{HEAD}{USER}ValueError: File "In[3]" is missing'
    assert plain(text).endswith('ValueError: File "In[3]" is missing')


def test_groups_of_exceptions_keep_their_margin() -> None:
    text = '  + Exception Group Traceback (most recent call last):\n  |   File "In[3]", line 2, in f\n  |     raise x'
    assert plain(text) == text.replace('File "In[3]"', "Cell In[3]")


def test_lines_are_highlighted() -> None:
    text = shown(f"{HEAD}{USER}ValueError: bad", name_of_file)
    assert "\x1b[32mCell In[3], line 2, in f\x1b[0m" in text
    assert "\x1b[34mreturn\x1b[39;49;00m" in text
    assert "\x1b[31m           ^^^^\x1b[0m" in text


def test_a_real_traceback() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{bad")
    text = plain("".join(traceback.format_exception(caught.value)))
    assert '    json.loads("{bad")\n  … json/decoder.py, line' in text
    assert "of 3 frames of libraries)\njson.decoder.JSONDecodeError" in text
