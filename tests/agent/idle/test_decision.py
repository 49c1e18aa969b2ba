"""When a machine counts as idle."""

from __future__ import annotations

from gpuproof.agent.idle.decision import IdleTracker, JupyterActivity, Look

HOUR = 3600.0
KERNEL = JupyterActivity(0, frozenset({("kernel a", "10:00")}))
LATER = JupyterActivity(0, frozenset({("kernel a", "10:05")}))
BUSY = JupyterActivity(1, frozenset({("kernel a", "10:00")}))
NOTHING = JupyterActivity(0, frozenset())
QUIET = Look(KERNEL, gpu_works=False)


def tracker(*looks: tuple[float, Look], has_jupyter: bool = True) -> IdleTracker:
    made = IdleTracker(HOUR, 0.0, has_jupyter=has_jupyter)
    for now, look in looks:
        made.note(look, now)
    return made


def test_a_machine_is_idle_when_nothing_has_happened_for_the_whole_time() -> None:
    quiet = tracker((10, QUIET), (3590, QUIET))
    assert quiet.reason(3599) is None
    assert quiet.reason(3600) == "idle for 60 min: no kernel was busy and no GPU worked"


def test_a_busy_kernel_is_activity() -> None:
    worked = tracker((10, QUIET), (3000, Look(BUSY, gpu_works=False)), (3600, QUIET))
    assert worked.reason(6599) is None
    assert worked.reason(6600) is not None


def test_a_cell_that_ran_between_two_looks_is_activity() -> None:
    assert tracker((10, QUIET), (3000, Look(LATER, gpu_works=False))).seconds_left(3600) == 3000


def test_a_new_kernel_is_activity_and_its_end_is_none() -> None:
    assert tracker((10, Look(NOTHING, gpu_works=False)), (50, QUIET)).idle_seconds(60) == 10
    assert tracker((10, QUIET), (50, Look(NOTHING, gpu_works=False))).idle_seconds(60) == 60


def test_a_working_gpu_is_activity_without_any_kernel() -> None:
    assert tracker((3500, Look(NOTHING, gpu_works=True))).reason(7000) is None


def test_an_open_shell_is_activity() -> None:
    assert tracker((3500, Look(NOTHING, gpu_works=False, shell_open=True))).reason(7000) is None


def test_a_server_that_does_not_answer_delays_the_end_but_does_not_prevent_it() -> None:
    silent = tracker((10, QUIET), (3000, Look(None, gpu_works=False)))
    assert silent.reason(7199) is None
    assert silent.reason(7200) == "idle for 2 h: Jupyter did not answer and no GPU worked"


def test_gpus_that_cannot_be_read_delay_the_end_but_do_not_prevent_it() -> None:
    unread = tracker((10, Look(KERNEL, gpu_works=None)))
    assert unread.reason(7199) is None
    assert unread.reason(7200) == "idle for 2 h: no kernel was busy and the GPUs could not be read"


def test_a_server_that_answers_again_is_not_activity_by_itself() -> None:
    again = tracker((10, QUIET), (50, Look(None, gpu_works=False)), (60, QUIET))
    assert again.idle_seconds(70) == 70


def test_a_machine_without_jupyter_is_idle_without_shell_and_gpu_work() -> None:
    bare = tracker((10, Look(None, gpu_works=False)), has_jupyter=False)
    assert bare.reason(3600) == "idle for 60 min: no shell was open and no GPU worked"
