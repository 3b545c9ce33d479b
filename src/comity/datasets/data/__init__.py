"""Data sets that come with the package; README.md beside this file says whose they are."""
