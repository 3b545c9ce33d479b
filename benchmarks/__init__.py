"""Speed and quality against peers and papers: prints tables, asserts nothing about time."""
