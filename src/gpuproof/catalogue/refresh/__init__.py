"""Refreshes offerings, prices, quotas and AMI ids from AWS, into the user's cache folder.

Each part of each region is read independently; if one fails, its earlier data is kept and the failure is reported.
All AWS calls of the catalogue are made here; boto3 is imported only for them.
"""

from gpuproof.catalogue.refresh.runner import PARTS, Outcome, Refresh

__all__ = ["PARTS", "Outcome", "Refresh"]
