"""What tests of pages and commands share: plotly's schema, and the command line in this process."""

import sys
import warnings

import pytest

from wstar.cli.main import main


def recoloured(value):
    """The figure with colours that plotly's schema takes."""
    if isinstance(value, str):
        return "#a1b2c3" if value.startswith("var(--") else value
    if isinstance(value, dict):
        return {key: recoloured(item) for key, item in value.items()}
    return [recoloured(item) for item in value] if isinstance(value, list) else value


def wstar_says(monkeypatch, capsys, *arguments):
    """Exit code of the command, and what it printed."""
    monkeypatch.setattr(sys, "argv", ["wstar", *map(str, arguments)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()
