"""``%fiber config``: what the settings are, where they come from, and from when a change counts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Final

from fibernb import config as configuration
from fibernb.errors import ConfigError
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.pages import Page
from fibernb.notebook.status_page import table
from fibernb.notebook.usage import did_you_mean

AT_ONCE: Final = frozenset({"progress", "output_limit_lines", "output_limit_bytes"})
"""What cells look up each time; all else a cluster is started with."""


class SettingsVerb:
    """The verb for one notebook."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def run(self, options: argparse.Namespace) -> Page | None:
        """Change what is to be changed, and say so; show what was asked for, or everything."""
        asked = [word for word in options.settings if "=" not in word]
        changes = [word for word in options.settings if "=" in word]
        _rows(asked)
        before = configuration.load()
        typed_settings(changes)  # all of them are right, or none is set
        for key, text in map(_pair, changes):
            os.environ[configuration.PREFIX + key.upper()] = text
        after = configuration.load()
        for key in dict.fromkeys(key for key, _ in map(_pair, changes)):
            print(self._told(key, getattr(before, key), getattr(after, key)))
        if changes and not asked:
            return None
        shown = _rows(asked)
        return Page(table([("setting", "value", "from", "accepts")[: len(shown[0])], *shown]))

    def _told(self, key: str, before: object, after: object) -> str:
        if before == after:
            return f"{key} is {_text(after)} already"
        return f"{key} = {_text(after)} (was {_text(before)}), {self._when(key)}"

    def _when(self, key: str) -> str:
        if key in AT_ONCE:
            return "from the next cell on"
        if self._clusters.in_use():
            return f"for the next cluster: {self._clusters.current().name} keeps what it has until %fiber stop"
        return "from the next start of a cluster on"


def typed_settings(pairs: Sequence[str]) -> dict[str, object]:
    """Typed values of ``KEY=VALUE`` words. Raises `ConfigError` for a key or value that cannot be."""
    base = configuration.load()
    return {
        key: getattr(configuration.with_changes(base, key, text), key) for key, text in (_pair(pair) for pair in pairs)
    }


def _pair(word: str) -> tuple[str, str]:
    key, equals, text = word.partition("=")
    if not equals:
        raise ConfigError(f"{word!r} is no setting: write KEY=VALUE, such as lease_s=600")
    return key, text


def _text(value: object) -> str:
    """A value as people write it; a text that may be empty in quotes."""
    return repr(value) if isinstance(value, str) else str(value)


def _rows(keys: Sequence[str]) -> list[tuple[str, ...]]:
    """The settings of these names, with what they accept, or all of them. Raises `ConfigError` for one unknown."""
    settings = {setting.key: setting for setting in configuration.describe()}
    for key in keys:
        if key not in settings:
            raise ConfigError(f"there is no setting {key!r}{did_you_mean(key, settings) or '; see %fiber config'}")
    rows = {key: (key, str(setting.value), _origin(setting)) for key, setting in settings.items()}
    return [(*rows[key], settings[key].accepts) for key in keys] or list(rows.values())


def _origin(setting: configuration.Setting) -> str:
    """Where a setting comes from, and who has fixed it."""
    return f"{setting.source}, locked by {setting.locked_by}" if setting.locked_by else setting.source
