"""pFedRLLA: an agent on the server decides who learns from whom, layer by layer."""

from comity.algorithms.pfedrlla.algorithm import PFedRLLA

__all__ = ["PFedRLLA"]
