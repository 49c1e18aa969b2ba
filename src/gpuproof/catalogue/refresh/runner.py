"""Reads all parts of all regions in parallel, and returns the outcome of each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from datetime import datetime
from typing import NamedTuple

from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.refresh import account, ec2, pricing
from gpuproof.catalogue.refresh.aws_errors import AwsError, classify_error
from gpuproof.catalogue.refresh.clients import Clients
from gpuproof.catalogue.refresh.store import TABLES, Scope
from gpuproof.catalogue.tables import Tables

PARTS = tuple(TABLES)
"""What can be refreshed, in the order of the report."""

WORKERS = 8
RETRY_WAITS_S = (5.0, 20.0)
"""Seconds before a throttled part is retried, after botocore's own retries have failed."""


class Outcome(NamedTuple):
    """The result of one part of one region: rows, or an error."""

    scope: Scope
    rows: list[Row] | None
    error: AwsError | None


class Refresh:
    """Reads fresh rows from AWS; writes nothing.

    Args:
        sleep: waits a number of seconds.
        progress: called with the text of the progress line.
    """

    def __init__(
        self,
        clients: Clients,
        tables: Tables,
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
        progress: Callable[[str], None],
    ) -> None:
        self._clients = clients
        self._tables = tables
        self._now = now
        self._sleep = sleep
        self._progress = progress
        self._done = 0

    def regions(self) -> list[str]:
        """Regions that the account may use; errors of boto3 are not caught."""
        home = self._clients.default_region() or "us-east-1"
        return ec2.enabled_regions(self._clients.get("ec2", home))

    def fetch(self, regions: Sequence[str], parts: Collection[str] = PARTS) -> list[Outcome]:
        """Reads the parts of the regions.

        Returns:
            One outcome per part and region, in the order of `PARTS`, then of regions. Instance types, which are the
            same everywhere, are one outcome for region `*`, and one more for each region that failed.
        """
        self._done = 0
        with ThreadPoolExecutor(max_workers=WORKERS) as pool:
            described = self._run(
                pool, {Scope("instances", region): self._instances(region) for region in regions}
            )
            types = {
                outcome.scope.region: {row["instance_type"] for row in outcome.rows or ()}
                for outcome in described
            }
            jobs = {
                Scope(part, region): self._job(part, region, types[region])
                for part in PARTS
                if part in parts and part != "instances"
                for region in regions
            }
            others = self._run(pool, jobs)
        return [*(_merge_instances(described) if "instances" in parts else ()), *others]

    def _run(self, pool: ThreadPoolExecutor, jobs: Mapping[Scope, Callable[[], list[Row]]]) -> list[Outcome]:
        running: dict[Future[Outcome], Scope] = {
            pool.submit(self._attempt, scope, job): scope for scope, job in jobs.items()
        }
        outcomes: dict[Scope, Outcome] = {}
        try:
            for future in as_completed(running):
                scope = running[future]
                outcomes[scope] = future.result()
                self._done += 1
                self._progress(f"{self._done} read, last {scope.part} of {scope.region}")
        except BaseException:
            for future in running:
                future.cancel()
            raise
        return [outcomes[scope] for scope in jobs]

    def _attempt(self, scope: Scope, job: Callable[[], list[Row]]) -> Outcome:
        for wait in (*RETRY_WAITS_S, None):
            try:
                return Outcome(scope, job(), None)
            except Exception as error:
                failure = classify_error(error)
                if failure is None:
                    raise
                if failure.kind != "throttled" or wait is None:
                    return Outcome(scope, None, failure)
                self._sleep(wait)
        raise AssertionError("the last wait is None")

    def _instances(self, region: str) -> Callable[[], list[Row]]:
        return lambda: ec2.instance_rows(self._clients.get("ec2", region), self._tables.gpus, self._today())

    def _job(self, part: str, region: str, here: set[str]) -> Callable[[], list[Row]]:
        known = here | set(self._tables.gpu_instances)
        # CPU types, Trainium and Inferentia have prices, but no rows of their own.
        priced = known | self._tables.ec2_types_with_prices
        get, today = self._clients.get, self._today()
        ec2_quotas = {row.name for row in self._tables.quotas if row.service == "ec2"}
        parameters = [ami.ssm_parameter for ami in self._tables.amis if ami.ssm_parameter]
        jobs: dict[str, Callable[[], list[Row]]] = {
            "offerings": lambda: ec2.offering_rows(get("ec2", region), region, known, today),
            "spot-prices": lambda: ec2.spot_rows(get("ec2", region), region, priced, self._now(), today),
            "ec2-prices": lambda: pricing.ec2_rows(
                get("pricing", pricing.PRICING_REGION), region, priced, today
            ),
            "sagemaker-prices": lambda: pricing.sagemaker_rows(
                get("pricing", pricing.PRICING_REGION), region, today
            ),
            "storage-prices": lambda: pricing.storage_rows(
                get("pricing", pricing.PRICING_REGION), region, today
            ),
            "quotas": lambda: account.quota_rows(
                get("service-quotas", region), region, ec2_quotas, known, today
            ),
            "amis": lambda: account.ami_rows(get("ssm", region), region, parameters, today),
        }
        return jobs[part]

    def _today(self) -> str:
        return self._now().date().isoformat()


def _merge_instances(described: Sequence[Outcome]) -> list[Outcome]:
    read = [outcome.rows for outcome in described if outcome.rows is not None]
    together = [Outcome(Scope("instances", "*"), list(ec2.merged(read)), None)] if read else []
    return [*together, *(outcome for outcome in described if outcome.error)]
