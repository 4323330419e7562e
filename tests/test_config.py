"""Where configuration comes from, what is refused, and what administrators can fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jupyter_core import paths

from fibernb import config
from fibernb.config import Config, describe, load, save, saved, with_changes
from fibernb.errors import ConfigError


class Places:
    """A working directory, a home and system directories of the test's own."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.home = root / "home"
        self.system = root / "etc" / "jupyter"
        self.lowest = root / "etc" / "fibernb"
        self.environ = {"HOME": str(self.home)}

    def write(self, directory: Path, text: str) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / config.FILE_NAME
        path.write_text(text)
        return path

    def load(self, **overrides: object) -> Config:
        return load(overrides, self.environ, self.work)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places(tmp_path)
    monkeypatch.setattr(config, "SYSTEM_DIRECTORIES", (found.system, found.lowest))
    return found


def test_defaults_when_nothing_is_set(places: Places) -> None:
    assert places.load() == Config()


def test_the_strongest_source_wins(places: Places) -> None:
    sources: list[tuple[str, Any]] = []
    places.write(places.lowest, "lease_s = 1")
    sources.append(("lowest", places.load().lease_s))
    places.write(places.system, "lease_s = 2")
    sources.append(("system", places.load().lease_s))
    places.write(places.home / ".jupyter", "lease_s = 3")
    sources.append(("jupyter", places.load().lease_s))
    places.write(places.home / ".config" / "fibernb", "lease_s = 4")
    sources.append(("user", places.load().lease_s))
    places.write(places.work, "lease_s = 5")
    sources.append(("work", places.load().lease_s))
    places.environ["FIBERNB_LEASE_S"] = "6"
    sources.append(("variable", places.load().lease_s))
    sources.append(("argument", places.load(lease_s=7).lease_s))
    assert [value for _, value in sources] == [1, 2, 3, 4, 5, 6, 7]


def test_an_argument_of_none_says_nothing(places: Places) -> None:
    places.environ["FIBERNB_WORKERS"] = "3"
    assert places.load(workers=None).workers == 3


def test_xdg_and_jupyter_variables_move_the_users_files(places: Places) -> None:
    places.write(places.home / "x" / "fibernb", "workers = 2")
    places.write(places.home / "j", "lease_s = 9")
    places.environ |= {"XDG_CONFIG_HOME": str(places.home / "x"), "JUPYTER_CONFIG_DIR": str(places.home / "j")}
    assert (places.load().workers, places.load().lease_s) == (2, 9)


def test_system_places_are_those_of_jupyter() -> None:
    jupyter = [Path(place) for place in [*paths.ENV_CONFIG_PATH, *paths.SYSTEM_CONFIG_PATH]]
    assert list(config.SYSTEM_DIRECTORIES[: len(jupyter)]) == jupyter


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("NAME", "alpha-1", "alpha-1"),
        ("WORKERS", "12", 12),
        ("WORKERS", "none", None),
        ("LEASE_S", "0.5", 0.5),
        ("PROGRESS", "0", False),
        ("PROGRESS", "on", True),
        ("PRELOAD", "numpy, scipy.stats", ("numpy", "scipy.stats")),
        ("PRELOAD", "", ()),
        ("RESOURCES", "gpus=1,memory=8e9", {"gpus": 1.0, "memory": 8e9}),
        ("OUTPUT_LIMIT_BYTES", "2_000", 2000),
        ("TRANSPORT", "zmq", "zmq"),
    ],
)
def test_variables_have_the_type_of_their_key(places: Places, variable: str, text: str, expected: object) -> None:
    places.environ[f"FIBERNB_{variable}"] = text
    assert getattr(places.load(), variable.lower()) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("workers", -1),
        ("workers", 2.5),
        ("workers", True),
        ("lease_s", "soon"),
        ("lease_s", -0.1),
        ("lease_s", float("nan")),
        ("lease_s", float("inf")),
        ("transport", "pigeon"),
        ("name", "../elsewhere"),
        ("name", "a/b"),
        ("name", "a\n"),
        ("name", ".hidden"),
        ("name", "x" * 65),
        ("progress", 1),
        ("preload", "numpy"),
        ("resources", {"gpus": -1}),
        ("resources", {"gpus": float("nan")}),
        ("resources", ["gpus"]),
        ("output_limit_lines", 1 << 70),
        ("workers", object()),
    ],
)
def test_values_that_do_not_fit_are_refused(places: Places, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"argument {key}: {key} cannot be .*It accepts "):
        places.load(**{key: value})


@pytest.mark.parametrize(
    ("variable", "text"),
    [("LEASE_S", "soon"), ("LEASE_S", "nan"), ("PROGRESS", "maybe"), ("WORKERS", "many"), ("RESOURCES", "gpus")],
)
def test_variables_that_do_not_fit_are_named(places: Places, variable: str, text: str) -> None:
    places.environ[f"FIBERNB_{variable}"] = text
    with pytest.raises(ConfigError, match=rf"variable FIBERNB_{variable}: .*It accepts"):
        places.load()


def test_an_unknown_key_names_the_nearest_and_its_source(places: Places) -> None:
    path = places.write(places.work, "leese_s = 3")
    with pytest.raises(ConfigError, match=rf"{path}: there is no key 'leese_s'. Did you mean 'lease_s'\?"):
        places.load()


def test_an_unknown_variable_is_an_error_and_kubernetes_service_links_are_not(places: Places) -> None:
    places.environ |= {"FIBERNB_HUB_SERVICE_HOST": "10.0.0.1", "FIBERNB_HUB_PORT_80_TCP": "x", "FIBERNB_HUB_PORT": "x"}
    assert places.load() == Config()
    places.environ["FIBERNB_XYZZY"] = "1"
    with pytest.raises(ConfigError, match=r"variable FIBERNB_XYZZY: there is no key 'xyzzy'. The keys are: name"):
        places.load()


@pytest.mark.parametrize("text", ["lease_s = ", "\x00", "= 3"])
def test_a_file_that_is_no_toml_is_named(places: Places, text: str) -> None:
    path = places.write(places.work, text)
    with pytest.raises(ConfigError, match=f"{path} cannot be read"):
        places.load()


def test_a_file_that_is_no_text_is_named(places: Places) -> None:
    places.write(places.work, "").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        places.load()


def test_workers_beyond_the_cap_are_refused(places: Places) -> None:
    places.write(places.system, "max_workers = 8")
    assert places.load(workers=8).workers == 8
    with pytest.raises(ConfigError, match="workers is 9, but max_workers allows 8"):
        places.load(workers=9)


# ---- locked keys ---------------------------------------------------------------------------------------


def test_a_locked_key_cannot_be_changed_below_and_says_who_locked_it(places: Places) -> None:
    path = places.write(places.system, 'max_workers = 8\nlocked = ["max_workers"]')
    assert places.load().locked == ("max_workers",)
    for place in (places.work, places.home / ".config" / "fibernb"):
        written = places.write(place, "max_workers = 100")
        with pytest.raises(ConfigError, match=rf"{written}: max_workers is locked at 8 by the administrator in {path}"):
            places.load()
        written.unlink()
    places.environ["FIBERNB_MAX_WORKERS"] = "none"
    with pytest.raises(ConfigError, match="variable FIBERNB_MAX_WORKERS: max_workers is locked at 8"):
        places.load()
    del places.environ["FIBERNB_MAX_WORKERS"]
    with pytest.raises(ConfigError, match="argument max_workers: max_workers is locked at 8"):
        places.load(max_workers=9)


def test_the_locked_value_itself_may_be_repeated(places: Places) -> None:
    places.write(places.system, 'lease_s = 30\nlocked = ["lease_s"]')
    assert places.load(lease_s=30).lease_s == 30


def test_a_key_may_be_locked_at_its_default(places: Places) -> None:
    places.write(places.lowest, 'locked = ["backend"]')
    with pytest.raises(ConfigError, match="backend is locked at 'local'"):
        places.load(backend="kubernetes")


def test_a_lock_holds_against_administrators_files_above_it(places: Places) -> None:
    places.write(places.lowest, 'lease_s = 30\nlocked = ["lease_s"]')
    places.write(places.system, 'lease_s = 40\nlocked = ["workers"]')
    with pytest.raises(ConfigError, match="locked at 30"):
        places.load()


def test_only_administrators_lock(places: Places) -> None:
    places.write(places.work, 'locked = ["lease_s"]')
    with pytest.raises(ConfigError, match="only an administrator's file can lock"):
        places.load()


def test_only_keys_that_there_are_can_be_locked(places: Places) -> None:
    places.write(places.system, 'locked = ["lease"]')
    with pytest.raises(ConfigError, match=r"in locked: there is no key 'lease'. Did you mean 'lease_s'\?"):
        places.load()


# ---- describe, change, keep ----------------------------------------------------------------------------


def test_describe_tells_where_values_come_from(places: Places) -> None:
    path = places.write(places.system, 'lease_s = 30\nlocked = ["lease_s"]')
    places.environ["FIBERNB_PROGRESS"] = "0"
    shown = {
        setting.key: setting
        for setting in describe(places.load(workers=3), environ=places.environ, directory=places.work)
    }
    assert set(shown) == set(config.KEYS) - {"locked"}
    assert (shown["lease_s"].source, shown["lease_s"].locked_by) == (str(path), str(path))
    assert shown["progress"].source == "variable FIBERNB_PROGRESS"
    assert shown["workers"].source == "set here"
    assert shown["backend"].source == "default"


def test_every_key_can_be_described() -> None:
    assert set(config.KEYS) == {field.name for field in msgspec.structs.fields(Config)}


def test_with_changes(places: Places) -> None:
    changed = with_changes(Config(), "lease_s", "120", places.environ, places.work)
    assert changed == Config(lease_s=120.0)
    with pytest.raises(ConfigError, match="lease_s=soon: lease_s cannot be 'soon'"):
        with_changes(Config(), "lease_s", "soon", places.environ, places.work)
    with pytest.raises(ConfigError, match="Did you mean 'lease_s'"):
        with_changes(Config(), "lease", "1", places.environ, places.work)
    with pytest.raises(ConfigError, match="max_workers allows 2"):
        with_changes(Config(max_workers=2), "workers", "3", places.environ, places.work)


def test_with_changes_respects_locks(places: Places) -> None:
    places.write(places.system, 'locked = ["lease_s"]')
    with pytest.raises(ConfigError, match="locked at 60"):
        with_changes(places.load(), "lease_s", "120", places.environ, places.work)
    with pytest.raises(ConfigError, match="only an administrator"):
        with_changes(places.load(), "locked", "", places.environ, places.work)


def test_a_saved_configuration_comes_back(tmp_path: Path) -> None:
    kept = Config(workers=3, resources={"gpus": 2.0}, preload=())
    save(kept, tmp_path)
    assert saved(tmp_path) == kept
    assert (tmp_path / config.SAVED_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'["x", 1]'])
def test_a_spoilt_saved_configuration_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / config.SAVED_NAME).write_bytes(content)
    with pytest.raises(ConfigError, match="does not hold a cluster's configuration"):
        saved(tmp_path)


def test_no_saved_configuration_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not hold"):
        saved(tmp_path)


def test_the_real_surroundings_are_the_default(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    places.write(places.work, "workers = 5")
    monkeypatch.chdir(places.work)
    monkeypatch.setenv("HOME", str(places.home))
    assert load().workers == 5


def test_the_module_imports_little() -> None:
    script = "import sys, fibernb.config; print(sorted({'jupyter_core', 'zmq', 'IPython', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
