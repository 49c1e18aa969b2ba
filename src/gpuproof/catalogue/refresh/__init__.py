"""Fresher facts from AWS itself: offerings, prices, quotas and AMI ids, into the user's cache folder.

Each part of each region is read on its own; what fails keeps what was there before and is named. The calls are here
and nowhere else in the catalogue; boto3 is imported only when they are made.
"""

from gpuproof.catalogue.refresh.runner import PARTS, Outcome, Refresh

__all__ = ["PARTS", "Outcome", "Refresh"]
