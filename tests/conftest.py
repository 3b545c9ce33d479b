"""Settings shared by all tests."""

from __future__ import annotations

import torch

# Several tests run at once on few cores, and bits must not depend on how many threads there are.
torch.set_num_threads(1)
