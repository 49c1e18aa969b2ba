"""Models that scripts load with pretrained weights are made from their configuration: nothing is downloaded but that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuproof.trace.document import Trace
from support.model_hub import model_hub
from support.optional_packages import skip_without
from support.traced_scripts import failure_of, trace_of

skip_without("transformers", "diffusers")
pytestmark = pytest.mark.slow

GPT = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 2,
    "n_embd": 64,
    "n_head": 2,
    "vocab_size": 1000,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
# Embeddings of tokens and 1024 positions, two blocks of 12 h^2 + 13 h, and the last norm.
GPT_PARAMETERS = 1000 * 64 + 1024 * 64 + 2 * (12 * 64**2 + 13 * 64) + 2 * 64

TRAINING = """
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained({arguments}).cuda()
assert not model.training
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    tokens = torch.randint(0, 1000, (4, 32), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
"""


def folder_with_config(tmp_path: Path, **more: object) -> Path:
    folder = tmp_path / "project"
    folder.joinpath("gpt").mkdir(parents=True)
    folder.joinpath("gpt", "config.json").write_text(json.dumps({**GPT, **more}))
    return folder


def notes(trace: Trace, code: str) -> list[str]:
    return [note.message for note in trace.assumptions if note.code == code]


def line_of(script: str, text: str) -> int:
    return script[: script.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("arguments", "stored", "precision"),
    [
        ("'gpt'", None, "float32"),
        ("'gpt', dtype=torch.bfloat16, low_cpu_mem_usage=True", None, "bfloat16"),
        ("'gpt', torch_dtype='auto', device_map='auto'", "float16", "float16"),
    ],
)
def test_a_folder_with_nothing_but_a_configuration(
    tmp_path: Path, arguments: str, stored: str | None, precision: str
) -> None:
    folder = folder_with_config(tmp_path, **({} if stored is None else {"dtype": stored}))
    script = TRAINING.format(arguments=arguments)
    trace = trace_of(folder, script)
    assert trace.parameters == GPT_PARAMETERS
    assert trace.precision == precision
    assert trace.model_bytes == GPT_PARAMETERS * (4 if precision == "float32" else 2)
    (note,) = (assumption for assumption in trace.assumptions if assumption.code == "weights")
    assert (note.line, "gpt was made from its configuration" in note.message) == (
        line_of(script, "from_pretrained"),
        True,
    )
    assert len(notes(trace, "device-map")) == ("device_map" in arguments)


def test_the_configuration_comes_from_the_hub_and_no_weights_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with model_hub("someone/small", {"config.json": json.dumps(GPT)}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "caches" / "hub"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        trace = trace_of(folder, TRAINING.format(arguments="'someone/small'"))
    assert trace.parameters == GPT_PARAMETERS
    assert any(path.endswith("config.json") for path in hub.paths)
    # What was downloaded is there for the run.
    assert list(tmp_path.joinpath("caches").rglob("config.json"))
    assert not [path for path in hub.paths if "safetensors" in path or "pytorch_model" in path]


@pytest.mark.parametrize(
    "loading",
    [
        "AutoModelForCausalLM.from_pretrained('someone/small')",
        "AutoTokenizer.from_pretrained('someone/small')",
    ],
)
def test_a_model_or_tokenizer_that_is_not_here_and_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loading: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    # A name that no name server knows: RFC 6761.
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    failure = failure_of(
        folder, f"from transformers import AutoModelForCausalLM, AutoTokenizer\n\n{loading}\n"
    )
    assert (failure.code, failure.line) == ("missing-file", 3)
    assert "folder" in failure.remedy
    assert "config.json" in failure.remedy


def test_a_script_that_handles_a_missing_model_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    script = TRAINING.replace("{arguments}", "'gpt'").replace(
        "model = ",
        "try:\n    AutoModelForCausalLM.from_pretrained('someone/small')\nexcept OSError:\n    print('none')\nmodel = ",
    )
    assert trace_of(folder_with_config(tmp_path), script).parameters == GPT_PARAMETERS


def test_a_checkpoint_with_other_quantization_is_an_error(tmp_path: Path) -> None:
    folder = folder_with_config(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    script = TRAINING.format(arguments="'gpt'")
    failure = failure_of(folder, script)
    assert (failure.code, failure.line) == ("quantization", line_of(script, "from_pretrained"))
    assert "gptq" in failure.message


UNET = """
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

model = UNet2DModel.from_pretrained("unet", torch_dtype=torch.bfloat16).to("cuda").train()
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    images = torch.randn(2, 3, 32, 32, device="cuda", dtype=torch.bfloat16)
    noise = torch.randn_like(images)
    steps = torch.randint(0, 1000, (2,), device="cuda")
    F.mse_loss(model(scheduler.add_noise(images, noise, steps), steps).sample, noise).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
UNET_CONFIG = {
    "_class_name": "UNet2DModel",
    "sample_size": 32,
    "block_out_channels": [32, 64],
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
}


def test_a_diffusion_model(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text(json.dumps(UNET_CONFIG))
    trace = trace_of(tmp_path, UNET)
    assert (trace.mode, trace.precision, trace.optimizer) == ("training", "bfloat16", "AdamW")
    assert {"conv", "attention", "norm"} <= {operator.kind for operator in trace.operators}
    assert any("unet was made from its configuration" in message for message in notes(trace, "weights"))


PIPELINE = """
import torch
from diffusers import DiffusionPipeline

pipeline = DiffusionPipeline.from_pretrained("images", torch_dtype=torch.float16).to("cuda")
pipeline(batch_size=2, num_inference_steps=4)
"""


def test_a_diffusion_pipeline_without_its_weights(tmp_path: Path) -> None:
    files = {
        "model_index.json": {
            "_class_name": "DDPMPipeline",
            "unet": ["diffusers", "UNet2DModel"],
            "scheduler": ["diffusers", "DDPMScheduler"],
        },
        "unet/config.json": UNET_CONFIG,
        "scheduler/scheduler_config.json": {"_class_name": "DDPMScheduler", "num_train_timesteps": 1000},
    }
    for name, content in files.items():
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    trace = trace_of(tmp_path, PIPELINE, "--mode", "inference")
    assert (trace.mode, trace.steps, trace.precision) == ("inference", 3, "float16")


BY_URL = """
import torch

model = torch.nn.Linear(64, 8)
state = torch.hub.load_state_dict_from_url("https://example.invalid/weights.pth")
model.load_state_dict({name.replace("module.", ""): value for name, value in state.items()})
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(4, 64, device="cuda")).sum().backward()
    optimizer.step()
"""


def test_weights_of_a_url_are_not_loaded(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, BY_URL)
    assert trace.parameters == 64 * 8 + 8
    (note,) = (assumption for assumption in trace.assumptions if assumption.code == "weights")
    assert note.line == line_of(BY_URL, "load_state_dict_from_url")


def test_a_state_that_does_not_suit_the_model_stays_an_error(tmp_path: Path) -> None:
    script = "import torch\ntorch.nn.Linear(2, 2).load_state_dict({})\n"
    failure = failure_of(tmp_path, script)
    assert (failure.code, failure.line) == ("script-error", 2)
    assert "Missing key" in failure.message


def test_a_checkpoint_file_that_is_not_here(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import torch\n\nstate = torch.load('last.pt')\n")
    assert (failure.code, failure.line) == ("missing-file", 3)
    assert "last.pt" in failure.message
    assert "resume" in failure.remedy
