"""HetPFL: PraFFL whose clients learn which preferences to train on.

``algorithm`` is the page of the paper, ``model`` a client's module.
"""

from comity.algorithms.hetpfl.algorithm import HetPFL
from comity.algorithms.hetpfl.model import Heterogeneous

__all__ = ["HetPFL", "Heterogeneous"]
