"""Allow-list of the text that `gpuproof doctor --report` prints.

A word is printed if it occurs in GPUproof's own messages and tables or has the shape of a version, a PCI address or a
unit, a path if it is one of the system's. Everything else, such as a word in an exception, is replaced.
"""

from __future__ import annotations

import builtins
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import CodeType

import gpuproof.doctor
import gpuproof.gpu
from gpuproof.catalogue import Catalogue
from gpuproof.doctor.tables import FOLDER as DOCTOR_TABLES
from gpuproof.explain.patterns import DATA as EXPLAIN_TABLES

REMOVED = "<removed>"
_PATH = "<path>"

_WORD = r"\w+(?:[.+-]\w+)*"
_TOKEN = re.compile(
    r"(?P<placeholder><(?:aws id|[a-z]+)>|GPU-<uuid>)"
    r"|(?P<pci>\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b)"
    r"|(?P<url>\w+://[^\s'\"`)>]+)"
    r"|(?P<setting>(?<![\w.])[A-Z][A-Z0-9_]{3,}=\S+)"
    rf"|(?P<path>(?<![\w<>])~?/(?:<[a-z]+>|[^\s'\"`,;:()|<>])*)"
    rf"|(?P<word>{_WORD})",
)

_SHAPES = re.compile(
    r"""
      \d{1,11}(?:\.\d+)?                                              # a number
    | v?\d+(?:\.\d+){1,3}(?:a|b|rc|\.post|\.dev)?\d*(?:\+(?:cpu|cu\d{2,3}|rocm[\d.]+))?   # a version
    | \d+(?:\.\d+)*(?:-(?:\d+|aws|cloud|generic|amd64|arm64|azure|gcp|lowlatency|microsoft|standard|WSL2))+  # a kernel
    | \d+(?:\.\d+)*-[\d.]+(?:\.amzn\d+|\.el\d\w{0,3}|\.fc\d+)\.(?:x86_64|aarch64)
    | 0x[0-9a-f]{1,8}
    | \d+(?:\.\d+)?(?:s|ms|GB|GiB|MB|MiB|KiB|TB|TiB|W|MHz|x|h)
    | x\d{1,2} | sm_\d{2,3}a? | compute_\d{2,3}a? | cu\d{2,3}
    | [DE]\d{3} | Xid | SXid
    | lib(?:cuda|cudart|cudnn\w{0,40}|cublas(?:Lt)?|cufft|cusolver|cusparse|nccl|nvidia-ml|nvJitLink|nvrtc)\.so(?:\.\d+)*
    | [ABHKLMPTV]\d{1,3}[GS]? | \d0\d0 | HBM\d?e? | SXM\d? | PCIe | NVL | GeForce | Tesla | Quadro | RTX | Ti | Laptop
    """,
    re.VERBOSE,
)

_SYSTEM_PATH = re.compile(
    r"/(?:"
    r"dev/(?:nvidia\d*|nvidiactl|nvidia-uvm|shm|dxg|kmsg)?"
    r"|proc/(?:modules|driver/nvidia/version|meminfo|self)?"
    r"|sys(?:/module/\w*nvidia|/bus/pci/devices)?"
    r"|usr/local/cuda(?:-\d+(?:\.\d+)?)?(?:/(?:lib64|lib|bin|compat|nvvm|extras/CUPTI/lib64|lib64/stubs))*"
    r"|usr/local/nvidia(?:/lib64|/lib)?"
    r"|(?:usr/)?lib(?:64)?(?:/(?:x86_64|aarch64)-linux-gnu)?(?:/nvidia|/stubs)?"
    r"|usr/(?:bin|local/bin|local/lib)"
    r"|opt/ml(?:/(?:model|code|input|output|checkpoints))?"
    r"|opt/conda(?:/lib)?|opt/amazon/(?:efa|openmpi)/lib(?:64)?|opt/aws-ofi-nccl/lib"
    r"|tmp|opt/dlami/nvme"
    r")?"
)

_URL = re.compile(
    r"https?://(?:www\.nvidia\.com/Download/index\.aspx|pytorch\.org/?|download\.pytorch\.org/[\w/]*)"
)

_PUNCTUATION = "\N{HORIZONTAL ELLIPSIS}\N{EN DASH}\N{MULTIPLICATION SIGN}\N{RIGHTWARDS ARROW}"
_VALUES = frozenset(
    re.findall(
        r"\S+",
        """0 1 true false on off yes no none void all compute utility graphics video display compat32 ngx info warn debug
        trace version eager lazy default fastest_first pci_bus_id gpu_private gpu_shared global cuda_malloc_async native
        cudamallocasync backend expandable_segments max_split_size_mb garbage_collection_threshold eth0 lo ens5
        xla_gpu_cuda_data_dir xla_gpu_autotune_level tf_xla_auto_jit""",
    )
)
"""The words that are printed in the value of an environment variable, in lower case."""


def publish(text: str) -> str:
    """Replace everything that is not on the allow-list."""
    return _publish(text, vocabulary())


def publish_value(value: str) -> str:
    """Replace everything in an environment variable's value but numbers, system paths and its usual words."""
    return _publish(value, _VALUES)


@cache
def vocabulary() -> frozenset[str]:
    """The words of GPUproof's own messages and tables, in lower case."""
    found = {word for text in _texts() for word in re.findall(_WORD, text)}
    catalogue = Catalogue.load()
    types = catalogue.tables.gpu_instances
    names = {*catalogue.regions(), *types, *(f"ml.{name}" for name in types), *_exception_names()}
    return frozenset(word.lower() for word in found | names)


def _publish(text: str, words: frozenset[str]) -> str:
    # Tokens first: a letter of another alphabet is part of a word.
    published = _TOKEN.sub(lambda match: _publish_token(match, words), text)
    readable = "".join(
        item if item.isascii() and (item.isprintable() or item == "\n") else _plain(item)
        for item in published
    )
    return re.sub(rf"{REMOVED}(?:[ .:/@=-]*{REMOVED})+", REMOVED, readable)


def _publish_token(match: re.Match[str], words: frozenset[str]) -> str:
    token = match[0]
    if match["placeholder"] or match["pci"]:
        return token
    if match["url"]:
        return token if _URL.fullmatch(token) else "<url>"
    if match["setting"]:
        name, _, value = token.partition("=")
        return f"{name if name.lower() in vocabulary() else REMOVED}={publish_value(value)}"
    if match["path"]:
        return _publish_path(token)
    if token.lower() in words or _SHAPES.fullmatch(token):
        return token
    version = re.match(r"(\d+(?:\.\d+)+)([+-])", token)
    return f"{version[1]}{version[2]}{REMOVED}" if version else REMOVED


def _publish_path(token: str) -> str:
    path = token.rstrip(".")
    end = token[len(path) :]
    folder, _, name = path.rpartition("/")
    if _SYSTEM_PATH.fullmatch(path):
        return token
    if not _SHAPES.fullmatch(name) or not name.startswith("lib"):
        return _PATH + end
    return f"{folder if _SYSTEM_PATH.fullmatch(folder) else _PATH}/{name}{end}"


def _plain(character: str) -> str:
    return character if character in _PUNCTUATION else " "


def _texts() -> Iterator[str]:
    for package in (gpuproof.doctor, gpuproof.gpu):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield from _constants(module.name)
    for folder in (DOCTOR_TABLES, EXPLAIN_TABLES, DOCTOR_TABLES.parents[1] / "gpu" / "data"):
        for table in folder.rglob("*.csv"):
            yield table.read_text(encoding="utf-8")


def _constants(module: str) -> Iterator[str]:
    """The strings in a module's code, which are its messages; neither comments nor names of variables."""
    spec = find_spec(module)
    code: CodeType | None = (
        spec.loader.get_code(module) if spec and isinstance(spec.loader, InspectLoader) else None
    )
    pending: list[object] = [code]
    while pending:
        one = pending.pop()
        if isinstance(one, CodeType):
            pending += one.co_consts
        elif isinstance(one, tuple):
            pending += one
        elif isinstance(one, str):
            yield one


def _exception_names() -> Iterator[str]:
    """Names of Python's and botocore's exceptions; AWS's error codes are in the tables."""
    import botocore.exceptions  # needed only by reports

    return (
        name
        for module in (builtins, botocore.exceptions)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    )
