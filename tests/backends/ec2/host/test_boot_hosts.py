"""Two instances of one launch boot together: they find each other, train with gloo, and each reports its end."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.backends.remote.s3_layout import RunLayout
from support.ec2_host_jobs import HostJobs
from support.simulated_instance import SimulatedInstance, simulated_network

pytestmark = pytest.mark.slow

# MASTER_ADDR is a name that only /etc/hosts of the instances has.
TRAIN = """
import os, pathlib, socket, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=180))
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "by", os.environ["MASTER_ADDR"], "sum", total.item(), flush=True)
name = os.environ["SM_CURRENT_HOST"]
pathlib.Path(os.environ["SM_MODEL_DIR"], f"{name}.txt").write_text(socket.gethostbyname("algo-2"))
dist.barrier()
dist.destroy_process_group()
"""


def test_two_instances_train_together(jobs: HostJobs, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    job = jobs.new(
        TRAIN,
        job={"launcher": "torchrun", "cluster_key": secrets.token_hex(32)},
        hosts=("algo-1", "algo-2"),
    )
    with ExitStack() as stack:
        # Names that say nothing about the job, as those of EC2.
        network = stack.enter_context(simulated_network(["ip-10-77-0-1", "ip-10-77-0-2"], jobs.emulator))
        instances = [
            stack.enter_context(SimulatedInstance(tmp_path / name, job, host=(network, name), index=index))
            for index, name in enumerate(network.addresses)
        ]
        for instance in instances:
            instance.wait_until_off()
    for number, host in enumerate(("algo-1", "algo-2")):
        own = replace(job, host=host)
        assert (own.end["status"], own.end["exit_code"]) == ("Completed", 0), own.end
        assert f"rank {number} of 2 by algo-1 sum 3.0" in jobs.output(own)
        assert own.report("address.json") == {
            "version": 1,
            "address": network.addresses[f"ip-10-77-0-{number + 1}"],
        }
        assert own.report("verdict.json") is not None
    output = f"{RunLayout(job.layout.run_id).output}{job.layout.run_id}/output"
    second = network.addresses["ip-10-77-0-2"].encode()
    assert job.archive(f"{output}/model.tar.gz") == {"algo-1.txt": second}
    assert job.archive(f"{output}/algo-2/model.tar.gz") == {"algo-2.txt": second}
