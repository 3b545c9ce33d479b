"""Settings as typed dicts, for editors and type checkers.

The modules here are written by ``tests/typed_settings.py`` from the declarations of the settings.
"""

from comity.api.typed.run import CompareSettings, RunSettings, SearchSettings, TuneSettings

__all__ = ["CompareSettings", "RunSettings", "SearchSettings", "TuneSettings"]
