"""The query interface of the catalogue."""

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, get_args

from gpuproof.catalogue import (
    build_support,
    drivers,
    host_drivers,
    images,
    prices,
    quotas,
    regions,
    replacements,
    sagemaker_api_types,
    storage_prices,
)
from gpuproof.catalogue import search as instance_search
from gpuproof.catalogue.builds import find_build
from gpuproof.catalogue.model import (
    Ami,
    Build,
    Gpu,
    ImageRow,
    Instance,
    JobKind,
    Market,
    Offering,
    Price,
)
from gpuproof.catalogue.prices import DEFAULT_REGION
from gpuproof.catalogue.replacements import Replacement
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.catalogue.tables import Tables
from gpuproof.settings import cache_path


class Catalogue:
    """Queries over dated facts about AWS GPUs.

    For an unknown name, methods return None, an empty tuple or `unknown`; they never raise. Prices are in USD per hour,
    sizes in bytes.

    Args:
        accepted: `ml.` types by job kind, as SageMaker's APIs accept them; empty if unknown.
    """

    def __init__(self, tables: Tables, accepted: Mapping[JobKind, frozenset[str]] | None = None) -> None:
        self.tables = tables
        self._given_accepted = accepted
        self._columns: dict[tuple[bool, str, JobKind | None, str], _PriceColumn] = {}
        self._running: dict[tuple[Build, ...], frozenset[tuple[str, str]]] = {}
        self._sagemaker: dict[str, Instance] = {}

    @classmethod
    def load(cls, refreshed: Path | None = None) -> Self:
        """Returns the catalogue that ships with GPUproof, overlaid with refreshed tables.

        Files are read when a query needs them.

        Args:
            refreshed: the folder of refreshed tables; None for that of the user.
        """
        if refreshed is None:
            cache = cache_path()
            refreshed = cache / "catalogue" if cache is not None else None
        return cls(Tables(refreshed=refreshed))

    def instance(self, name: str) -> Instance | None:
        """Returns the instance type `g5.xlarge` (EC2) or `ml.g5.xlarge` (SageMaker); None if it is unknown.

        Types without a GPU are included; their `gpu_count` is 0. SageMaker does not have every EC2 type:
        `ml.g5g.xlarge` is None, because none of its APIs accepts it.
        """
        if not name.startswith("ml."):
            return self.tables.gpu_instances.get(name) or self.tables.other_instance(name)
        found = self.instance(name.removeprefix("ml.")) if not name.startswith("ml.ml.") else None
        if found is None or (found.status != "retired" and self._accepted and not self.accepted_for(name)):
            return None
        return self._on_sagemaker(found)

    def accepted_for(self, name: str) -> tuple[JobKind, ...]:
        """Job kinds for which SageMaker's APIs accept `ml.g5.xlarge`, by the installed botocore."""
        return tuple(kind for kind, types in self._accepted.items() if name in types)

    def gpu(self, name: str) -> Gpu | None:
        """Returns the GPU model `A10G`, or as a driver reports it: `NVIDIA A100-SXM4-80GB`.

        None for an unknown name, and for one that matches several models (`A100`).
        """
        found = instance_search.matching_gpus((name,), self.tables.gpus.values())
        return self.tables.gpus[next(iter(found))] if len(found) == 1 else None

    def search(self, query: InstanceQuery) -> tuple[Instance, ...]:
        """Returns the matching types, cheapest first; types of unknown price come last.

        With `service="sagemaker"` or a `use` they are named `ml.…`. Fractional types count as less than one GPU.
        """
        on_sagemaker = query.use is not None or query.service == "sagemaker"
        region = query.region or DEFAULT_REGION
        column = self._price_column(on_sagemaker, region, query.use, query.market)
        context = instance_search.SearchContext(
            gpus=self.tables.gpus,
            offered=self.tables.offerings.get(query.region) if query.region else None,
            accepted=self._accepted_names(query.use) if on_sagemaker else None,
            prices=column.prices,
            running=self._models_running(query.builds) if query.builds else None,
        )
        found = instance_search.search(column.cheapest_first, query, context)
        return tuple(map(self._on_sagemaker, found)) if on_sagemaker else tuple(found)

    def price(
        self,
        name: str,
        region: str = DEFAULT_REGION,
        use: JobKind | None = None,
        market: Market = "on-demand",
    ) -> Price | None:
        """Returns the hourly price; None if unknown. A listed price does not guarantee capacity.

        Args:
            name: `g5.xlarge` or `ml.g5.xlarge`.
            use: job kind on SageMaker; None for any.
        """
        return prices.find_price(self.tables.prices(region), self.tables.sagemaker_ratios, name, use, market)

    def volume_price(
        self, volume: storage_prices.Volume, region: str = DEFAULT_REGION
    ) -> storage_prices.VolumePrice | None:
        """Returns what an EBS volume, or the storage of a SageMaker instance, costs; None if that is unknown."""
        return storage_prices.volume_price(self.tables.storage_prices, volume, region)

    def offerings(self, name: str, region: str | None = None) -> tuple[Offering, ...]:
        """Regions and zone ids where EC2 offers the type. SageMaker's own list is not public."""
        ec2_type = name.removeprefix("ml.")
        found = self.tables.offerings.items() if region is None else [(region, self.region(region))]
        return tuple(types[ec2_type] for _, types in sorted(found) if ec2_type in types)

    def region(self, region: str) -> Mapping[str, Offering]:
        """Offerings of one region by type; empty for a region that was not read."""
        return self.tables.offerings.get(region, {})

    def regions(self) -> tuple[str, ...]:
        """Regions whose offerings were read."""
        return tuple(sorted(self.tables.offerings))

    def known_regions(self) -> tuple[str, ...]:
        """Regions that the catalogue has any facts about."""
        tables = self.tables
        return tuple(sorted({*tables.regions, *tables.registries, *tables.offerings, *tables.priced_regions}))

    def misspelt_region(self, region: str) -> str | None:
        """The region that an unknown one stands for; None if no known region is near."""
        return regions.misspelt(region, self.known_regions())

    def nearest_regions(self, region: str, candidates: Collection[str]) -> list[str]:
        """Sorts regions by their distance from a region; regions of other partitions are left out."""
        return regions.nearest_first(region, candidates, self.tables.regions)

    def quota(
        self,
        name: str,
        region: str = DEFAULT_REGION,
        use: JobKind | None = None,
        market: str = "on-demand",
        instances: int = 1,
    ) -> quotas.Quota | None:
        """Returns the quota that the instances count against; None for an unknown type.

        Args:
            name: `g5.xlarge` counts vCPUs of EC2; `ml.g5.xlarge` counts instances of one use.
            use: the job kind on SageMaker; training if None.
            market: `on-demand`, `spot`, or SageMaker's `warm-pool`.
        """
        found = self.instance(name)
        if found is None:
            return None
        kind: JobKind | None = (use or "training") if found.on_sagemaker else None
        tables = self.tables
        return quotas.find_quota(tables.quotas, tables.quota_limits, found, region, kind, market, instances)

    def replacements(
        self, name: str, use: JobKind | None = None, region: str | None = None
    ) -> tuple[Replacement, ...]:
        """Returns alternatives with a reason each, cheapest first; empty for an unknown type.

        Args:
            name: a retired type, one without a GPU, or any other.
            use: job kind on SageMaker; None for those that accept the type now, or any.
            region: where the alternatives must be offered.
        """
        old = self.instance(name)
        if old is None:
            return ()
        kinds = (use,) if use else self.accepted_for(name)
        query = InstanceQuery(region=region, service="sagemaker" if old.on_sagemaker else "ec2", use=use)
        candidates = [
            instance
            for instance in self.search(query)
            if not old.on_sagemaker or not kinds or set(kinds) & set(self.accepted_for(instance.name))
        ]
        column = self._price_column(old.on_sagemaker, region or DEFAULT_REGION, use, "on-demand")
        return tuple(replacements.find_replacements(old, candidates, self.tables.gpus, column.listed))

    def alternatives(
        self, name: str, use: JobKind | None = None, region: str = DEFAULT_REGION
    ) -> tuple[Replacement, ...]:
        """Returns types that can take the place of a type that is not available now, cheapest first.

        A type with a GPU has those of `replacements`; one without has similar types without a GPU.
        """
        old = self.instance(name)
        if old is None or old.gpu_count:
            return self.replacements(name, use, region)
        prefix = "ml." if old.on_sagemaker else ""
        names = {
            row.instance_type for row in self.tables.prices(region).rows.values() if row.service == "ec2"
        }
        found = [one for ec2_type in sorted(names) if (one := self.instance(prefix + ec2_type))]
        candidates = [match for match in found if not match.gpu_count]
        if use and old.on_sagemaker:
            accepted = self._accepted_names(use)
            candidates = [
                candidate for candidate in candidates if accepted is None or candidate.name in accepted
            ]
        priced = ((candidate.ec2_type, self.price(candidate.name, region, use)) for candidate in candidates)
        return tuple(
            replacements.find_similar(old, candidates, {key: price for key, price in priced if price})
        )

    def image(
        self,
        framework: str,
        version: str | None,
        use: JobKind,
        instance: str,
        region: str,
        driver: int | None = None,
    ) -> images.Image | None:
        """Returns the AWS Deep Learning Container for a job; None if there is none or the region is unknown.

        Args:
            framework: `torch`, `pytorch`, `tensorflow`, `tf`, or `huggingface` for Hugging Face's PyTorch images.
            version: `2.11` or `2.11.0`, of Transformers for `huggingface`; None for the newest that AWS still patches and
                that every host of SageMaker runs that the job may get.
            instance: instance type; determines GPU or CPU, host architecture, and SageMaker or EC2 flavour.
            driver: the driver branch that this account's jobs had on the instance's family, instead of the documented one.
        """
        found = self.instance(instance)
        if found is None:
            return None
        tables = self.tables
        rows = tables.huggingface_images if framework.lower() == images.HUGGINGFACE else tables.images
        service = host_drivers.HOST_SERVICES.get(use) if found.on_sagemaker and found.gpu_count else None

        def runs(row: ImageRow) -> bool:
            floor = self.driver_floor(row.cuda) if row.cuda else None
            gpu = self.gpu(found.gpu_model or "")
            return service is None or host_drivers.runs_image(
                tables.host_amis, service, found.family, floor, gpu, driver
            )

        return images.find_image(rows, tables.registries, framework, version, use, found, region, runs)

    def amis(self, instance: str, framework: str | None = None) -> tuple[Ami, ...]:
        """Deep Learning AMIs that match an EC2 type by host architecture, kernel module and instance families."""
        found = self.instance(instance.removeprefix("ml."))
        gpu = self.tables.gpus.get(found.gpu_model or "") if found else None
        if found is None or gpu is None:
            return ()
        return tuple(
            ami
            for ami in self.tables.amis
            if ami.arch == found.arch
            and gpu.kernel_module in (ami.kernel_module, "either")
            and (not ami.families or found.family in ami.families)
            and (framework is None or ami.framework == framework)
        )

    def driver_floor(self, cuda: str) -> drivers.DriverRequirement | None:
        """Drivers that support CUDA `12.9` or `cu129`; None for an unknown version."""
        return drivers.driver_floor(self.tables.cuda_drivers, cuda)

    def build(self, requirement: str, arch: str = "x86_64") -> Build | None:
        """Returns the build for `torch==2.11` or `torch==2.11.0+cu126` on a host architecture; None if unknown."""
        return find_build(self.tables.builds, requirement, arch)

    def runs_on(self, build: Build | str | None, gpu: Gpu | str | None) -> build_support.Support:
        """Whether a framework's build runs on a GPU: native, by PTX (a slow first start), no, or unknown.

        Args:
            build: a row, or a requirement such as `torch==2.11`, for the host architecture on which AWS offers this
                GPU.
            gpu: a row, a key or any name of one model.
        """
        model = self.gpu(gpu) if isinstance(gpu, str) else gpu
        if model is None:
            return build_support.Support("unknown", f"Unknown GPU {gpu}.")
        binary = self.build(build, self._arch_of(model)) if isinstance(build, str) else build
        if binary is None:
            return build_support.Support("unknown", f"Unknown build {build} on {self._arch_of(model)}.")
        return build_support.support(binary, model)

    @cached_property
    def _accepted(self) -> Mapping[JobKind, frozenset[str]]:
        return sagemaker_api_types.accepted_types() if self._given_accepted is None else self._given_accepted

    @cached_property
    def _accepted_by_any(self) -> frozenset[str]:
        return frozenset().union(*self._accepted.values())

    def _accepted_names(self, use: JobKind | None) -> frozenset[str] | None:
        # An unknown job kind, or a missing service model, excludes nothing.
        return (self._accepted.get(use) if use else self._accepted_by_any) or None

    def _price_column(
        self, on_sagemaker: bool, region: str, use: JobKind | None, market: Market
    ) -> "_PriceColumn":
        key = (on_sagemaker, region, use, market)
        if key not in self._columns:
            prefix, instances = "ml." if on_sagemaker else "", self.tables.gpu_instances
            found = ((ec2_type, self.price(prefix + ec2_type, region, use, market)) for ec2_type in instances)
            listed = {ec2_type: price for ec2_type, price in found if price}
            column = {ec2_type: price.usd_per_hour for ec2_type, price in listed.items()}
            # A type without a price on SageMaker is ordered by what it costs on EC2.
            on_ec2 = self._price_column(False, region, None, market).prices if on_sagemaker else None
            in_order = instance_search.sort_by_price(instances.values(), column, on_ec2)
            self._columns[key] = _PriceColumn(listed, column, in_order)
        return self._columns[key]

    def _models_running(self, builds: tuple[Build, ...]) -> frozenset[tuple[str, str]]:
        if builds not in self._running:
            pairs = ((build, gpu) for build in builds for gpu in self.tables.gpus.values())
            running = (
                (build.arch, gpu.name) for build, gpu in pairs if self.runs_on(build, gpu).kind != "no"
            )
            self._running[builds] = frozenset(running)
        return self._running[builds]

    def _arch_of(self, gpu: Gpu) -> str:
        hosts = (
            instance.arch for instance in self.tables.gpu_instances.values() if instance.gpu_model == gpu.name
        )
        return next(hosts, "x86_64")

    def _on_sagemaker(self, instance: Instance) -> Instance:
        name = f"ml.{instance.ec2_type}"
        if name not in self._sagemaker:
            self._sagemaker[name] = instance._replace(name=name)
        return self._sagemaker[name]


class _PriceColumn(NamedTuple):
    listed: dict[str, Price]
    prices: dict[str, float]
    cheapest_first: list[Instance]


JOB_KINDS: tuple[JobKind, ...] = get_args(JobKind)
"""Every job kind."""
