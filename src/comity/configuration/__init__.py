"""The complete configuration of a run: every value that decides its bits.

`run` has the settings, `layers` the sources of values and their order, `checks` what is refused,
`assemble` puts them together, `files` reads them; `travel` derives what travels.
"""

from comity.configuration.assemble import configure
from comity.configuration.attack import attack_of, split_attacks
from comity.configuration.checks import check_complete, lacks_companions
from comity.configuration.files import difference, parse_setting, read_toml
from comity.configuration.grids import (
    assignment,
    axes,
    grid_entries,
    grids,
    printed_axes,
    with_grids,
)
from comity.configuration.layers import Layer, PresetEntry, merged, named_presets, preset, presets
from comity.configuration.planning import contact_plan, planned, planned_sizes
from comity.configuration.run import DEFAULT_PRESET, EXCHANGES, RUN_SETTINGS, Configuration
from comity.configuration.travel import Travel, message_sizes

__all__ = [
    "DEFAULT_PRESET",
    "EXCHANGES",
    "RUN_SETTINGS",
    "Configuration",
    "Layer",
    "PresetEntry",
    "Travel",
    "assignment",
    "attack_of",
    "axes",
    "check_complete",
    "configure",
    "contact_plan",
    "difference",
    "grid_entries",
    "grids",
    "lacks_companions",
    "merged",
    "message_sizes",
    "named_presets",
    "parse_setting",
    "planned",
    "planned_sizes",
    "preset",
    "presets",
    "printed_axes",
    "read_toml",
    "split_attacks",
    "with_grids",
]
