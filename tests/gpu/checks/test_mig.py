"""Multi-Instance GPU."""

from gpuproof.gpu.checks import mig
from support.gpu_states import codes, gpu, gpus


def test_mig_without_instances_is_an_error_with_them_a_note():
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True, mig_instances=0)))) == ["D620 error"]
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True, mig_instances=3)))) == ["D621 note"]
    assert codes(mig.evaluate(gpus(gpu(mig=True, mig_pending=True)))) == []


def test_a_pending_change_of_mig_names_its_direction():
    (finding,) = mig.evaluate(gpus(gpu(mig=True, mig_pending=False, mig_instances=0)))
    assert finding.code == "D622"
    assert "from MIG on to MIG off" in finding.message
