"""What the dashboard shows, without a server: the list of runs, pages of `gpuproof.report`, and runs that are watched for several readers."""

from gpuproof.app.dashboard.cost_page import cost_page
from gpuproof.app.dashboard.error_page import error_page
from gpuproof.app.dashboard.live_page import live_page
from gpuproof.app.dashboard.plans_page import plans_page
from gpuproof.app.dashboard.runs_document import runs_document
from gpuproof.app.dashboard.watched_run import WatchedRun, WatchedRuns

__all__ = [
    "WatchedRun",
    "WatchedRuns",
    "cost_page",
    "error_page",
    "live_page",
    "plans_page",
    "runs_document",
]
