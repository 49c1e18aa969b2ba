"""The extension in a real JupyterLab in Chromium. `GPUPROOF_SCREENSHOTS=FOLDER` keeps pictures to look at."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from support.jupyter import wait_until
from support.jupyterlab import Lab, notebook_in_jupyterlab
from support.notebook_kernel import GpuMachine

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("jupyterlab")]

LOAD, WORK, STATE, FAILS, ENDLESS = range(5)
_PLOT = "document.querySelector('.jp-OutputArea svg[role=img]')"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, nvml_home: Path) -> GpuMachine:
    return GpuMachine(tmp_path_factory.mktemp("machine"), nvml_home, gpus=2)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, machine: GpuMachine) -> Generator[Lab]:
    holds = f"with open({str(machine.pid_file)!r}, 'w') as file:\n    file.write(str(os.getpid()))"
    cells = [
        "%load_ext gpuproof",
        f"%%gpu\nprint('epoch 1')\n{machine.wait(1.0, 2)}\n{machine.work(3.0)}",
        f"{holds}\n%gpu",
        f"%%gpu\n{machine.wait()}\nopen('missing.csv')",
        f"%%gpu\n{holds}\nprint('ready')\ntime.sleep(600)",
    ]
    folder = tmp_path_factory.mktemp("lab")
    with notebook_in_jupyterlab(folder, cells, machine.environment) as lab:
        for index in (LOAD, WORK, STATE, FAILS):
            lab.run_cell(index)
            lab.wait_until_done(index)
        yield lab


def test_the_report_is_below_the_output_with_a_plot_for_each_gpu(lab: Lab) -> None:
    text = lab.output_text(WORK)
    assert text.index("epoch 1") < text.index("partly used: 1 of 2 GPUs worked")
    assert lab.output_html(WORK).count('role="img"') == 2
    box = lab.page.evaluate(
        f"(() => {{ const b = {_PLOT}.getBoundingClientRect(); return [b.width, b.height] }})()"
    )
    assert box[0] > 150
    assert 30 < box[1] < 100


def test_the_report_of_a_cell_that_raised_is_below_its_traceback(lab: Lab) -> None:
    text = lab.output_text(FAILS)
    assert text.index("FileNotFoundError") < text.index("partly used: 1 of 2 GPUs worked")


def test_the_notebook_that_holds_memory_is_named(lab: Lab) -> None:
    assert "training.ipynb (this notebook)" in lab.output_text(STATE)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_text_and_lines_follow_the_theme(lab: Lab, theme: str) -> None:
    lab.use_theme(theme)
    _keep_pictures(lab, theme.rpartition(" ")[2].lower())
    line, background = lab.page.evaluate(
        f"""[
          getComputedStyle({_PLOT}.querySelector('path[stroke=currentColor]')).stroke,
          getComputedStyle(document.querySelector('.jp-Notebook')).backgroundColor,
        ]"""
    )
    light = "Light" in theme
    assert (_brightness(line) < 128) == light
    assert (_brightness(background) > 128) == light


def test_the_stop_button_ends_the_cell_and_the_report_follows(lab: Lab) -> None:
    lab.run_cell(ENDLESS)
    wait_until(lambda: "ready" in lab.output_text(ENDLESS))
    looks = os.path.getsize(_looks(lab))
    wait_until(lambda: os.path.getsize(_looks(lab)) > looks + 8)
    lab.command("notebook:interrupt-kernel")
    lab.wait_until_done(ENDLESS)
    text = lab.output_text(ENDLESS)
    assert text.index("KeyboardInterrupt") < text.index("partly used: 1 of 2 GPUs worked")


def _looks(lab: Lab) -> Path:
    return Path(lab.environment["GPUPROOF_NVML_STUB"]).with_name("looks")


def _brightness(colour: str) -> float:
    """Mean of the channels of `rgb(1, 2, 3)` or `rgba(1, 2, 3, 0.5)`, from 0 to 255."""
    channels = [float(word) for word in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return sum(channels) / 3


def _keep_pictures(lab: Lab, name: str) -> None:
    folder = os.environ.get("GPUPROOF_SCREENSHOTS")
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    for index in (WORK, STATE):
        lab.show(index)
        lab.page.screenshot(Path(folder) / f"{name}-{index}.png")
