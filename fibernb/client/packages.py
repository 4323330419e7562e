"""Local directories as packages: copies in a cache, called by their content, so that what a task sees does not change
under it and equal directories are copied once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from fibernb.client.ignoring import Ignored
from fibernb.errors import ConfigError

LIMIT_BYTES: Final = 512 * 2**20
LARGEST_SHOWN: Final = 3
KEPT_S: Final = 7 * 24 * 3600.0  # packages that nobody has used for so long go
CHUNK_BYTES: Final = 2**20

Fill: TypeAlias = Callable[[Path], object]  # puts the content into an empty directory


def cache_directory() -> Path:
    """Where packages stand: ``fibernb/packages`` in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "fibernb" / "packages"


def package(source: Path, name: str, excludes: Sequence[str] = (), inside: str = "") -> Path:
    """The package of a directory or file.

    Parameters
    ----------
    name : of the option, for errors.
    excludes : patterns as of ``.gitignore``, relative to the directory; ``.gitignore`` itself counts as well.
    inside : the name that the content bears within the package; empty: the content is the package.

    Raises `ConfigError` when it holds more than 512 MiB, or cannot be read.
    """
    try:
        files = list(_files_of(source, Ignored(excludes)))
        _check_size(source, name, files)
        digest = _digest(source, files, inside)
        return _kept(digest, lambda draft: _copy(source, files, draft / inside if inside else draft))
    except OSError as error:
        culprit = error.filename or source
        raise ConfigError(f"{name}: {culprit} cannot be packaged: {error.strerror or error}") from error


def unpack(archive: Path, name: str) -> Path:
    """The package of what stands in a wheel or a zip file."""
    try:
        _check_size(archive, name, [archive])
        digest = hashlib.blake2b(archive.read_bytes(), digest_size=16).hexdigest()
        with zipfile.ZipFile(archive) as content:
            return _kept(digest, content.extractall)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{name}: {archive} cannot be unpacked: {error}") from error


def _files_of(source: Path, ignored: Ignored) -> Iterator[Path]:
    """The files of a directory, in order, without what is ignored; links count as what they lead to."""
    if source.is_file():
        yield source
        return
    for path, folders, names in os.walk(source, followlinks=False):
        here = Path(path)
        inner = here.relative_to(source)
        ignored.read(here / ".gitignore", inner)
        folders[:] = sorted(folder for folder in folders if not ignored.matches(inner / folder, True))
        yield from (here / name for name in sorted(names) if _is_content(here / name, inner / name, ignored))


def _is_content(path: Path, inner: Path, ignored: Ignored) -> bool:
    return path.is_file() and not ignored.matches(inner, False)


def _check_size(source: Path, name: str, files: Iterable[Path]) -> None:
    sizes = sorted(((path.stat().st_size, path) for path in files), reverse=True)
    total = sum(size for size, _ in sizes)
    if total > LIMIT_BYTES:
        largest = ", ".join(f"{path} ({size / 2**20:,.0f} MiB)" for size, path in sizes[:LARGEST_SHOWN])
        raise ConfigError(
            f"{name}: {source} holds {total / 2**20:,.0f} MiB, and at most {LIMIT_BYTES // 2**20} MiB are packaged. "
            f"The largest files: {largest}. Leave them out with runtime_env['excludes'], and read data by its path."
        )


def _digest(source: Path, files: Iterable[Path], inside: str) -> str:
    digest = hashlib.blake2b(inside.encode(), digest_size=16)
    for path in files:
        state = path.stat()
        head = f"\0{path.relative_to(source)}\0{state.st_size}\0{state.st_mode & 0o111}\0"
        digest.update(head.encode("utf-8", "surrogateescape"))
        with path.open("rb") as content:
            while chunk := content.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _kept(digest: str, fill: Fill) -> Path:
    """The package of that digest, made if it is not there: whole or not at all."""
    cache = cache_directory()
    target = cache / digest
    if target.is_dir():
        os.utime(target)
        return target
    cache.mkdir(parents=True, exist_ok=True)
    _drop_unused(cache)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=cache))
    try:
        fill(draft)
        draft.chmod(0o755)
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise somebody else was faster
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _copy(source: Path, files: Iterable[Path], target: Path) -> None:
    if source.is_file():
        shutil.copy2(source, target)
        return
    target.mkdir(exist_ok=True)
    for path in files:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _drop_unused(cache: Path) -> None:
    oldest = time.time() - KEPT_S
    for path in cache.iterdir():
        if path.stat().st_mtime < oldest:
            shutil.rmtree(path, ignore_errors=True)
