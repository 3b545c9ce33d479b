"""pFedRLLA: an agent on the server decides who learns from whom, layer by layer.

``algorithm`` is the page of the paper, ``model`` a client's module, ``allocation`` the server's
state, ``agent`` and ``encoder`` its networks, ``trainer`` their optimiser; ``agent_file`` and
``pretraining`` hand a trained agent to other runs.
"""

from comity.algorithms.pfedrlla.algorithm import PFedRLLA

__all__ = ["PFedRLLA"]
