"""`rt.watch()` as a call, in real scripts on a machine with the stub NVML."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from support.watch_machine import WatchMachine

UNUSED = "No process of the job opened a GPU."
IMPORT = "import os, signal, sys\nimport gpuproof.runtime as rt\n"


def test_a_script_that_uses_its_gpu_keeps_its_output_and_exit_code(machine: WatchMachine, tmp_path: Path):
    report = tmp_path / "report.json"
    script = (
        f"import gpuproof.runtime as rt\nrt.watch(report={str(report)!r})\n{machine.works}\nprint('done')"
    )
    ended = machine.run(script)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert "A10G" in ended.stderr
    document = json.loads(report.read_text())
    assert (document["verdict"]["outcome"], document["exit_code"]) == ("used", 0)
    assert document["command"][-1] == str(tmp_path / "script.py")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 4),
        ("sys.exit()", 4),
        ("sys.exit(3)", 3),
        ("sys.exit('why')", 1),
        ("exit(6)", 6),
        ("1 / 0", 1),
        ("os._exit(0)", 0),
        ("os.kill(os.getpid(), signal.SIGTERM)", -15),
        ("raise SystemExit(0)", 4),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", 4),
    ],
)
def test_only_a_script_that_would_have_succeeded_ends_with_exit_code_4(
    machine: WatchMachine, ending: str, code: int
):
    ended = machine.run(f"{IMPORT}rt.watch()\n{ending}")
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count(UNUSED) == 1


def test_a_gpu_that_is_not_required_is_only_reported(machine: WatchMachine):
    ended = machine.run("import gpuproof.runtime as rt\nrt.watch(require_gpu=False)")
    assert ended.returncode == 0
    assert UNUSED in ended.stderr


def test_handlers_registered_before_and_after_run_before_exit_code_4(machine: WatchMachine):
    ended = machine.run(
        f"import atexit\natexit.register(print, 'before')\n{IMPORT}rt.watch()\natexit.register(print, 'after')"
    )
    assert (ended.returncode, ended.stdout) == (4, "after\nbefore\n")


WORKERS = """
import multiprocessing, os, subprocess, sys
import gpuproof.runtime as rt
rt.watch()

def work(number):
    rt.watch()
    return number

if __name__ == "__main__":
    if os.fork() == 0:
        rt.watch()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    for method in ("fork", "spawn", "forkserver"):
        worker = multiprocessing.get_context(method).Process(target=work, args=(1,))
        worker.start()
        worker.join()
        assert worker.exitcode == 0, method
    print("done")
"""


def test_forks_and_workers_report_nothing_and_keep_their_exit_codes(machine: WatchMachine):
    ended = machine.run(WORKERS)
    assert (ended.returncode, ended.stdout) == (4, "done\n"), ended.stderr
    assert ended.stderr.count(UNUSED) == 1
    assert "does nothing" not in ended.stderr


@pytest.mark.parametrize("watcher", ["gpuproof run", "gpuproof watch"])
def test_a_watched_script_says_that_it_does_nothing(machine: WatchMachine, watcher: str):
    ended = machine.run(f"{IMPORT}rt.watch()\nwith rt.watch(): pass", GPUPROOF_WATCHED_BY=watcher)
    assert ended.returncode == 0
    assert (
        ended.stderr
        == f"gpuproof: {watcher} watches this process already, so this rt.watch() does nothing.\n"
    )


def test_gpuproof_watch_tells_the_script(machine: WatchMachine):
    script = machine.write(f"{IMPORT}rt.watch()\n{machine.works}")
    ended = machine.run_words("-m", "gpuproof", "watch", "--", sys.executable, str(script))
    assert ended.returncode == 0, ended.stderr
    assert "gpuproof watch watches this process already" in ended.stderr
    assert ended.stderr.count("A10G") >= 1


def test_a_script_that_replaces_its_program_is_watched_again(machine: WatchMachine):
    script = f"{IMPORT}rt.watch()\nif len(sys.argv) == 1:\n    os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])"
    ended = machine.run(script)
    assert ended.returncode == 4, ended.stderr
    assert "does nothing" not in ended.stderr


def test_a_script_runs_on_if_the_monitor_process_is_killed(machine: WatchMachine):
    script = f"""{IMPORT}
import socket, struct
from gpuproof.runtime.watch.shared_connection import current_connection
rt.watch()
pid = struct.unpack("3i", current_connection()._client._socket.getsockopt(socket.SOL_SOCKET, 17, 12))[0]
for entry in os.listdir("/proc"):
    if entry.isdigit() and entry != str(os.getpid()):
        try:
            words = open(f"/proc/{{entry}}/cmdline").read().split("\\0")
            own = open(f"/proc/{{entry}}/environ").read()
        except OSError:
            continue
        if "monitor" in words and os.environ["MARK"] in own:
            os.kill(int(entry), signal.SIGKILL)
print(rt.watch().usage())
"""
    ended = machine.run(script, MARK=f"mark-{os.getpid()}")
    assert (ended.returncode, ended.stdout) == (0, "()\n"), ended.stderr
    assert ended.stderr.startswith("gpuproof: The GPUs are not measured: the monitor process has ended")
    assert len(ended.stderr.splitlines()) == 1


def test_a_script_runs_on_if_the_monitor_process_cannot_start(machine: WatchMachine):
    ended = machine.run(f"{IMPORT}sys.executable = '/nonexistent'\nrt.watch()\nprint('done')")
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert ended.stderr.startswith("gpuproof: The GPUs are not measured: ")
    assert len(ended.stderr.splitlines()) == 1


def test_another_platform_gets_one_line(machine: WatchMachine):
    ended = machine.run(f"{IMPORT}sys.platform = 'darwin'\nrt.watch()\nwith rt.watch(): print('done')")
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert (
        ended.stderr
        == "gpuproof: The GPUs are not measured: rt.watch() needs Linux with /proc. The script is not affected.\n"
    )


def test_a_machine_without_a_driver_is_a_failure_only_if_a_gpu_is_required(machine: WatchMachine):
    for required, code in ((True, 4), (False, 0)):
        ended = machine.run(f"{IMPORT}rt.watch(require_gpu={required})", LD_LIBRARY_PATH="")
        assert ended.returncode == code, ended.stderr


def test_a_closed_standard_error_changes_nothing(machine: WatchMachine):
    ended = machine.run(f"{IMPORT}rt.watch()\nsys.stderr = None\nprint('done')")
    assert (ended.returncode, ended.stdout) == (4, "done\n")


def test_usage_is_the_mean_since_the_call_before(machine: WatchMachine):
    script = f"""{IMPORT}
watch = rt.watch()
watch.usage()
{machine.works}
print(watch.usage()[0].utilization > 0, watch.usage()[0].memory_used > 0)
"""
    ended = machine.run(script)
    assert ended.stdout == "True True\n", ended.stderr


def test_usage_is_measured_under_gpuproof_run_too(machine: WatchMachine):
    script = f"{IMPORT}\nwatch = rt.watch()\nwatch.usage()\n{machine.works}\nprint(watch.usage()[0].utilization > 0)"
    ended = machine.run(script, GPUPROOF_WATCHED_BY="gpuproof run")
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_a_second_call_with_other_options_is_mentioned_at_the_end(machine: WatchMachine):
    calls = "rt.watch(require_gpu=False)\nrt.watch(require_gpu=False)\nwith rt.watch(gpus=0): pass\n"
    again = "called again with other options"
    for script, is_mentioned in ((calls, False), (f"{calls}rt.watch(gpus=3)", True)):
        ended = machine.run(IMPORT + script)
        assert ended.returncode == 0, ended.stderr
        assert (again in ended.stderr) == is_mentioned


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)"])
def test_a_sagemaker_job_has_the_report_and_the_reason_where_sagemaker_looks(
    machine: WatchMachine, tmp_path: Path, ending: str
):
    config = tmp_path / "ml/input/config/resourceconfig.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"current_host": "algo-1", "hosts": ["algo-1"]}))
    ended = machine.run(f"{IMPORT}rt.watch()\n{ending}", SAGEMAKER_BASE_DIR=str(tmp_path / "ml"))
    assert ended.returncode == 4, ended.stderr
    report = json.loads((tmp_path / "ml/output/data/gpuproof/algo-1/report.json").read_text())
    assert (report["host"], report["exit_code"]) == ("algo-1", 0)
    reason = (tmp_path / "ml/output/failure").read_text()
    assert "gpu-unused" in reason
    assert UNUSED in reason


def test_the_last_host_of_a_group_has_the_verdict_on_all(machine: WatchMachine, tmp_path: Path):
    script = f"{IMPORT}rt.watch(group='cats', hosts=2, to={str(tmp_path / 'reports')!r}, require_gpu=False)"
    outputs = [machine.run(script, SLURMD_NODENAME=host).stderr for host in ("n1", "n2")]
    assert ["all 2 hosts" in output for output in outputs] == [False, True], outputs


def test_a_location_without_a_group_is_an_error_of_the_call(machine: WatchMachine):
    ended = machine.run(f"{IMPORT}rt.watch(to='reports')\nprint('done')")
    assert "ValueError" in ended.stderr
    assert "group=" in ended.stderr
