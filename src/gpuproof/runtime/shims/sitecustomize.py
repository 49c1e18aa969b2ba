"""Times the steps of a training, if the job asks for it: lets hooks into each framework that the script imports.

Python imports this module when it starts, because the agent puts its folder on the PYTHONPATH. It imports nothing itself, so
that a script without a framework starts as fast as before, and runs the environment's own `sitecustomize`, if there is one.
"""

# pyright: reportMissingParameterType=false, reportOptionalMemberAccess=false
import os
import sys

_HOOKS = {
    "torch": "torch_hooks",
    "transformers.trainer": "library_hooks",
    "transformers.modeling_utils": "library_hooks",
    "accelerate.accelerator": "library_hooks",
    "lightning.pytorch.trainer.trainer": "library_hooks",
    "pytorch_lightning.trainer.trainer": "library_hooks",
    "safetensors.torch": "library_hooks",
    "keras.src.trainers.trainer": "keras_hooks",
    "keras.engine.training": "keras_hooks",
    "keras.src.engine.training": "keras_hooks",
    "tf_keras.src.engine.training": "keras_hooks",
    "tensorflow": "tensorflow_hooks",
}
"""Modules of frameworks, and which module of `gpuproof.runtime.steps` receives them once they are imported."""

_FOLDER_VARIABLE = "GPUPROOF_STEPS"


class _Finder:
    """Finds modules through the other finders, and calls their hooks after they have run."""

    def find_spec(self, name, path=None, target=None):
        if name not in _HOOKS:
            return None
        hooks = _HOOKS.pop(name)
        spec = _find(name, path, target, without=self)
        loader = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module"):
            try:
                loader.exec_module = _calling(hooks, loader)
            except AttributeError:
                pass  # an extension module's loader: without hooks
        return spec


def _find(name, path, target, without):
    for finder in sys.meta_path:
        if finder is not without and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _calling(hooks, loader):
    def exec_module(module):
        del loader.exec_module
        loader.exec_module(module)
        try:
            from gpuproof.runtime.steps.install import install  # only with a framework

            install(hooks, module)
        except Exception:  # noqa: BLE001, S110 - as without hooks: an older GPUproof in the environment has none
            pass

    # Python leaves its import system out of a traceback, and so this function, if the import fails.
    exec_module.__code__ = exec_module.__code__.replace(
        co_filename="<frozen importlib._bootstrap>", co_name="_call_with_frames_removed"
    )
    return exec_module


def _run_environments_own():
    own = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to import
    original = sys.path[:]
    sys.path[:] = [folder for folder in original if folder != own]
    try:
        spec = _find("sitecustomize", None, None, without=None)
    finally:
        sys.path[:] = original
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


# Programs of the script may run in an older Python, even 2.7.
if os.environ.get(_FOLDER_VARIABLE) and sys.version_info >= (3, 9):
    sys.meta_path.insert(0, _Finder())
_run_environments_own()
