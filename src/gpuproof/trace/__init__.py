"""Traces: what a script would do on a GPU, recorded without one (`python -m gpuproof.trace --output FILE -- train.py …`).

The script runs as `python train.py …` would, in its own interpreter, and ends after a few steps. Whatever happens, one document is
written: a trace, or why there is none (`document.py`, `failures.py`); `gpuproof.planning` reads it. Only the standard library and the
script's own framework are imported.

- `pytorch/` and `tensorflow/` trace scripts of these frameworks; `frameworks.py` reads the imports that decide which.
- `libraries/` patches other packages when the script imports them (`imports.py`): `from_pretrained` of transformers and diffusers makes
  models from their configuration, functions of flash-attn, xFormers and bitsandbytes become those of PyTorch.
- `handler.py` loads a served model with `serve/model/loader.py`, and tells the session where a request ends.
- `synthetic_data.py` replaces public data sets, `private_contract.py` makes a private `/opt/ml`. What the script writes goes to a scratch
  folder (`side_effects.py`, `file_changes.py`); requests and programs that would change something elsewhere are stopped (`uploads.py`).

PyTorch's fake tensors and dispatch modes were preferred to `torch.export` and `torch.compile`, which follow only what they can compile.
ONNX and symbolic tracers know no optimizer and no order of frees.
"""
