"""Advice about installed packages: missing modules and commands, CUDA libraries, symbols, arguments and attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Advice, AdviceFunction
from gpuproof.explain.patterns import data_rows, data_table
from gpuproof.util.csv_table import read_package_rows

_FRAMEWORKS = ("torch", "tensorflow", "nvidia", "triton")
_CUDART = re.compile(r"libcudart\.so\.(\d+)")
_CUDNN = re.compile(r"libcudnn\w*\.so\.(\d+)")
_BUILDERS = ("setuptools", "pip", "hatchling", "poetry", "scikit_build_core", "pyproject_hooks")
_INSTALL_FORMS = {"flash_attn": "flash-attn --no-build-isolation"}
_REMOTE_CODE = "transformers_modules"
"""The package into which transformers puts the code of models that is loaded with trust_remote_code."""
_PASSED_ON = ("__init__", "__new__", "__call__", "forward", "call")
"""Methods whose arguments mostly come from the user's code, through that of a package."""
_EXTENSIONS = {"flash_attn": "flash-attn"}
"""Packages by the names of their compiled modules."""


def module(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The package that provides the module; an unknown module is most likely a file of the user."""
    name, importer = groups.get("module", ""), groups.get("importer", "")
    top = name.partition(".")[0]
    table = data_table("modules", "module")
    row = table.get(name) or table.get(top)
    package = row["package"] if row else top
    parent, _, last = name.rpartition(".")
    if parent and (advice := moved({"module": parent, "name": last}, context)) is not None:
        return advice
    job = context.job
    if job is not None and package.lower().replace("_", "-") in job.requirements:
        return Advice(
            f"The job's requirements.txt names {package}, but it is not installed for this interpreter.",
            f"The log of pip above says why. Print sys.executable in the script: the packages may be in another Python. "
            f"Check with: python -m pip show {package}",
            instead=True,
        )
    if groups.get("build") and importer in ("", *_BUILDERS):
        return Advice(
            f"A package is built from source in an environment of its own: it imports {top} while it is built and does not "
            f"declare it. Whether {top} is installed does not matter.",
            f"pip install {package} first, then pip install --no-build-isolation PACKAGE (uv pip install --no-build-isolation), or "
            f"a wheel of PACKAGE for this Python, torch and CUDA. In one requirements.txt the order does not help.",
            instead=True,
        )
    if importer and importer != top and name != top:
        # Python names the first part that is missing: the package itself is there.
        return Advice(
            f"{top} is installed, but this version has no {name.removeprefix(top + '.')}: {importer} was written for another "
            f"version of {top}.",
            f"Install versions of {importer} and {top} that were released together (pip show {importer} {top}); if both come "
            "with a container, take a later or an earlier release of it.",
            instead=True,
        )
    if importer and importer != top:
        return Advice(
            f"The installed package {importer} imports it: {package} is an optional or changed dependency of {importer}, not "
            "a file of yours.",
            (row["remedy"] if row else "")
            or f"echo {package} >> requirements.txt. If that is not enough, {importer} is older or newer than {package}: pip check",
            instead=True,
        )
    if importer == top and name != top:
        return Advice(
            f"{top} is installed, but this version has no {name.removeprefix(top + '.')}.",
            f"pip show {package} shows the version; pin the one that the code was written for.",
            instead=True,
        )
    if row is None and job is not None and {f"{top}.py", top}.intersection(job.files):
        return Advice(
            f"{top} was sent with the job, but its folder is not on Python's path: the script is in another folder.",
            f"Set source_dir to the folder that contains {top}, and entry_point relative to it.",
            instead=True,
        )
    if row is None:
        return Advice(
            f"{top} is not a package that GPUproof knows. If {top}.py (or a folder {top}) is yours, it was not sent with the job.",
            f"If it is your file: set source_dir to the folder that contains both the script and {top}; without source_dir only the script is sent.\nIf it is a package: echo {top} >> requirements.txt, next to the script.",
            instead=True,
        )
    return Advice(
        f"{top} is part of the package {package}." if package != top else "",
        row["remedy"] or f"echo {package} >> requirements.txt",
        instead=True,
    )


def command(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The package that provides a command."""
    name = groups.get("command", "").rpartition("/")[2]
    row = data_table("commands", "command").get(name)
    if row is None:
        return None
    if context.job is not None and row["package"] in context.job.requirements:
        return Advice(
            f"requirements.txt names {row['package']}, but the folder of its commands is not on PATH.",
            f"python -m {row['module'] or name} instead of {name}, or export PATH=$PATH:~/.local/bin",
            instead=True,
        )
    return Advice(row["what"], row["remedy"], instead=True)


def cuda_library(groups: Mapping[str, str], _: Context) -> Advice | None:
    """The CUDA version of a missing library, and the package that was built for it."""
    library = groups.get("library") or groups.get("library2") or ""
    row = {row["soname"]: row for row in _cuda_libraries()}.get(library)
    runtime = _CUDART.match(library)
    cuda = row["cuda"] if row else runtime[1] if runtime else ""
    importer = groups.get("importer", "")
    if library.startswith(("libtorch", "libc10")):
        return _other_torch(importer)
    if dnn := _CUDNN.match(library):
        return _cudnn(library, dnn[1], groups.get("loader") or importer)
    if not cuda:
        return None
    package = row["package"] if row else f"nvidia-cuda-runtime-cu{cuda}"
    if not importer or importer in _FRAMEWORKS:
        return Advice(f"{library} belongs to CUDA {cuda} (package {package}).")
    name = _INSTALL_FORMS.get(importer, importer)
    return Advice(
        f"{importer} was built for CUDA {cuda} ({library}), which this environment does not have: it has another CUDA.",
        f"pip install --force-reinstall {name}, with a wheel for the CUDA of this environment's torch: "
        'python -c "import torch; print(torch.version.cuda)".\n'
        f"Or use an image with CUDA {cuda}; or pip install {package} and put its folder on LD_LIBRARY_PATH.",
        instead=True,
    )


def _other_torch(importer: str) -> Advice | None:
    if not importer or importer == "torch":
        return None
    return Advice(
        f"{importer} was built for another torch than the one that is installed.",
        f"pip install --force-reinstall --no-build-isolation {importer}, or its wheel for this torch: "
        'python -c "import torch; print(torch.__version__)"',
        instead=True,
    )


def _cudnn(library: str, major: str, loader: str) -> Advice | None:
    if not loader or loader == "tensorflow":
        return None
    return Advice(
        f"{loader} needs cuDNN {major} ({library}), which this environment does not have.",
        f"pip install 'nvidia-cudnn-cu12=={major}.*' (cu11 or cu13 for another CUDA) and put its folder nvidia/cudnn/lib on "
        f"LD_LIBRARY_PATH; or a build of {loader} for the cuDNN that is installed: cuDNN 8 and 9 do not replace each other.",
        instead=True,
    )


def symbol_owner(groups: Mapping[str, str], _: Context) -> Advice | None:
    """The library that should define a symbol, and the package that brings another version of it."""
    symbol, library = groups.get("symbol", ""), groups.get("library", "")
    row = next(
        (row for prefix, row in data_table("symbols", "prefix").items() if symbol.startswith(prefix)), None
    )
    if row is None:
        return None
    importer = groups.get("package") or groups.get("importer", "")
    importer = next((name for prefix, name in _EXTENSIONS.items() if importer.startswith(prefix)), importer)
    importing = f"{importer} ({library})" if importer and importer != "torch" else library
    return Advice(
        f"{symbol} is defined by {row['owner']}: {importing} was built with another version of it than the one that is loaded.",
        row["remedy"].replace("IMPORTER", importer or "PACKAGE"),
        instead=True,
    )


def argument(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What replaced an argument that a function no longer has."""
    callable_, name, importer = groups.get("callable", ""), groups.get("name", ""), groups.get("importer", "")
    for row in data_table("arguments", "key").values():
        known = next((known for known in row["callables"].split() if _is_call(callable_, known)), None)
        if row["argument"] != name or known is None:
            continue
        # A method of the user's own class is called by the package as it should be.
        if importer and not known.startswith(".") and not row["remedy"].startswith("pip "):
            return Advice(
                f"{row['what'].rstrip('.')}. The installed package {importer} still passes it: it is older than the package that "
                "it calls.",
                f"pip install -U {importer}. In your own code, too: {row['remedy']}",
                instead=True,
            )
        return Advice(row["what"], row["remedy"], instead=True)
    class_, method = callable_.rpartition(".")[::2]
    if importer and class_ and method not in _PASSED_ON and "<locals>" not in callable_:
        return Advice(
            f"The installed package {importer} calls {method}() with {name}. If {class_} is a class of yours, its {method}() "
            f"was written for another {importer}.",
            f"Let it accept what it does not know, and pass that on: def {method}(self, …, **kwargs): … "
            f"super().{method}(…, **kwargs). Or pip install the {importer} that the code was written for.",
            instead=True,
        )
    return None


def installed_code(groups: Mapping[str, str], _: Context) -> Advice | None:
    """The two packages that do not fit together: the one that raised the error, and the one of the class."""
    importer, class_ = groups.get("importer", ""), groups.get("class", "").rpartition(".")[2]
    if importer == _REMOTE_CODE:
        return Advice(
            "The model's own code (trust_remote_code) raised it: it was written for another transformers.",
            "pip install the transformers that config.json of the model names (transformers_version), or load a later revision "
            "of the model.",
            instead=True,
        )
    for row in data_rows("class_packages"):
        if row["importer"] in ("", importer) and fnmatchcase(class_, row["class"]):
            both = importer if row["package"] == importer else f"{importer} and {row['package']}"
            return Advice(
                f"The package {importer} raised it.",
                row["remedy"] or f"pip install -U {both.replace(' and ', ' ')}",
                instead=True,
            )
    return Advice(f"The package {importer} raised it: it, or what it builds on, is too old or too new.")


def moved(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What replaced a name that a package no longer has, and who imports it."""
    module_, name, importer = groups.get("module", ""), groups.get("name", ""), groups.get("importer", "")
    package = module_.partition(".")[0]
    row = next(
        (
            row
            for row in data_rows("moved_names")
            if row["module"] == module_ and fnmatchcase(name, row["name"])
        ),
        None,
    )
    row = row or _removed(module_, name)
    what = f"{row['what']} " if row else ""
    if importer == _REMOTE_CODE:
        return Advice(
            f"{what}The model's own code (trust_remote_code) imports it: it was written for another {package}.",
            f"pip install a {package} of the model's time (config.json of the model has transformers_version), load a later "
            "revision of the model, or load it without trust_remote_code if transformers has this model by now."
            + (f"\nIn a copy of the code: {row['remedy']}" if row else ""),
            instead=True,
        )
    if importer and importer != package:
        return Advice(
            f"{what}The installed package {importer} imports it: {importer} was written for another {package}.",
            f"pip install -U {importer}; if its newest release still does: an older {package} (pip show {importer}, "
            f"pip check), pinned in requirements.txt.",
            instead=True,
        )
    if row is not None:
        return Advice(row["what"], row["remedy"], instead=True)
    return None


def _removed(module_: str, name: str) -> dict[str, str] | None:
    """What is known of a name that a release of transformers no longer has in a module."""
    for row in data_rows("removed_names"):
        if row["module"] != module_ or name not in row["names"].split():
            continue
        release = "<5" if row["without"] == "5.0" else f"=={row['has']}.*"
        older = f"pip install 'transformers{release}'"
        if row["now"]:
            return {
                "what": f"transformers {row['without']} no longer has {name} there, but in {row['now']}.",
                "remedy": f"from {row['now']} import {name}; or {older}",
            }
        return {
            "what": f"transformers {row['without']} no longer has {name}; {row['has']} still has it.",
            "remedy": f"{older} (pinned in requirements.txt), or code without {name}.",
        }
    return None


def attribute(groups: Mapping[str, str], _: Context) -> Advice | None:
    """What replaced an attribute of SageMaker SDK v2."""
    row = data_table("sdk_attributes", "key").get(f"{groups.get('class', '')}.{groups.get('name', '')}")
    return Advice(remedy=row["instead"], instead=True) if row else None


ADVICE: dict[str, AdviceFunction] = {
    "module": module,
    "command": command,
    "cuda_library": cuda_library,
    "symbol_owner": symbol_owner,
    "argument": argument,
    "moved": moved,
    "installed_code": installed_code,
    "attribute": attribute,
}


def _is_call(callable_: str, known: str) -> bool:
    """Whether a callable of a message is a known one; Python 3.9 prints no class, and `.log` stands for any class."""
    if known.startswith("."):
        return callable_.endswith(known)
    return callable_ in (known, known.rpartition(".")[2])


def _cuda_libraries() -> list[dict[str, str]]:
    return read_package_rows("gpuproof.gpu", "data/cuda_libraries.csv")
