"""The complete configuration of a run: every value that decides its bits.

`run` has the settings, `layers` the sources of values and their order, `checks` what is refused,
`assemble` puts them together, `files` reads them.
"""

from comity.configuration.assemble import configure
from comity.configuration.attack import attack_of, split_attacks, with_attacks
from comity.configuration.checks import check_complete
from comity.configuration.files import parse_setting, read_toml
from comity.configuration.grids import axes, grid_entries, grids, with_grids
from comity.configuration.layers import Layer, PresetEntry, merged, named_presets, preset, presets
from comity.configuration.run import DEFAULT_PRESET, EXCHANGES, RUN_SETTINGS, Configuration

__all__ = [
    "DEFAULT_PRESET",
    "EXCHANGES",
    "RUN_SETTINGS",
    "Configuration",
    "Layer",
    "PresetEntry",
    "attack_of",
    "axes",
    "check_complete",
    "configure",
    "grid_entries",
    "grids",
    "merged",
    "named_presets",
    "parse_setting",
    "preset",
    "presets",
    "read_toml",
    "split_attacks",
    "with_attacks",
    "with_grids",
]
