"""The command ``fibernb``. A verb is a module with ``HELP``, ``add_arguments`` and ``run``, imported when used."""

from fibernb.cli.main import main

__all__ = ["main"]
