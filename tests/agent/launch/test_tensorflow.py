"""TensorFlow's launchers: the variables of SageMaker's toolkit, and real clusters of several hosts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.contract import Machine
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.agent.launch.registry import LAUNCHERS
from gpuproof.agent.launch.shown_command import shown_command
from gpuproof.agent.paths import RunPaths
from support.host_agents import Host, HostAgents

WORKER = """
import json, os, sys
import tensorflow as tf, gpuproof.runtime as rt
given = json.loads(os.environ["TF_CONFIG"])
strategy = rt.strategy(allow_cpu=True)
import keras, numpy as np
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)
    model.compile(optimizer, "mse")
x = np.arange(128, dtype="float32").reshape(32, 4) / 64
y = x.sum(1, keepdims=True)
said = {"given": given, "kind": type(strategy).__name__, "batch": rt.global_batch_size(8, strategy), "first": rt.is_first_rank()}
data = tf.data.Dataset.from_tensor_slices((x, y, np.arange(32))).batch(said["batch"])
for method in ("fit", "evaluate"):
    try:
        getattr(model, method)(data.map(lambda x, y, _: (x, y)), verbose=0)
    except rt.KerasFitUnsupported as error:
        said[method] = str(error)
@tf.function
def step(batch):
    def one(batch):
        x, y, _ = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return strategy.reduce("MEAN", strategy.run(one, args=(batch,)), axis=None)
@tf.function
def share():
    context = tf.distribute.get_replica_context()
    return context.all_reduce("SUM", tf.cast(context.replica_id_in_sync_group + 1, tf.float32))
said["sum"] = float(strategy.experimental_local_results(strategy.run(share))[0])
said["losses"], said["read"] = [], []
for epoch in range(2):
    for batch in strategy.experimental_distribute_dataset(data):
        said["losses"].append(float(step(batch)))
        if epoch == 0:
            said["read"] += [int(i) for local in strategy.experimental_local_results(batch[2]) for i in local]
kept = rt.checkpoint(model=model)
kept.save()
rt.save(model)
print(json.dumps(said))
"""
COORDINATED = """
import json, os
import tensorflow as tf, gpuproof.runtime as rt
strategy = rt.strategy(allow_cpu=True)
with strategy.scope():
    counter, other = tf.Variable(0.0), tf.Variable(0.0)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
for _ in range(5):
    coordinator.schedule(tf.function(lambda: counter.assign_add(1.0)))
coordinator.join()
servers = [variable.device.split("/device")[0] for variable in (counter, other)]
print(json.dumps({"counted": float(counter.numpy()), "first": rt.is_first_rank(), "servers": servers}))
"""
# Reads TF_CONFIG as scripts for TensorFlow 1 do: variables on the servers, a session on master and workers.
BETWEEN_GRAPH = """
import faulthandler, json, os
faulthandler.dump_traceback_later(300, exit=True)  # where it waits, if it ever hangs
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
cluster = tf.train.ClusterSpec(config["cluster"])
# A session of several workers waits for all of them unless its filters name what it needs.
needed = tf.ConfigProto(device_filters=["/job:ps", f"/job:{task['type']}/task:{task['index']}"])
server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"], config=needed)
is_chief = task["type"] == "master"
workers = 1 + cluster.num_tasks("worker")
with tf.device(tf.train.replica_device_setter(worker_device=f"/job:{task['type']}/task:{task['index']}", cluster=cluster)):
    steps = tf.train.get_or_create_global_step()
    done = tf.get_variable("done", [], tf.int32, tf.zeros_initializer())
    weight = tf.get_variable("weight", [], tf.float32, tf.zeros_initializer())
    train = tf.train.GradientDescentOptimizer(0.1).minimize((weight - 3.0) ** 2, global_step=steps)
    finish = tf.assign_add(done, 1, use_locking=True)
with tf.train.MonitoredTrainingSession(master=server.target, is_chief=is_chief, config=needed) as session:
    for _ in range(20):
        session.run(train)
    session.run(finish)
    if is_chief:
        while session.run(done) < workers:
            pass
        servers = sorted({variable.device for variable in (steps, done, weight)})
        print(json.dumps({"weight": float(session.run(weight)), "steps": int(session.run(steps)), "servers": servers}))
"""
SCRIPT = ("/usr/bin/python3", "train.py")


def launch(launcher: str, hosts: int, host: int, **job: Any) -> HostLaunch:
    described = AgentJob(
        run_id="run",
        job_name="job",
        kind="training",
        entry_point="train.py",
        python="/usr/bin/python3",
        checkpoints="/tmp/checkpoints",
        hosts=tuple(f"algo-{number}" for number in range(1, hosts + 1)),
        current_host=f"algo-{host}",
        launcher=launcher,
        **job,
    )
    return LAUNCHERS[launcher](LaunchContext(described, RunPaths(Path("/run")), Machine(4, 1), SCRIPT))


def tf_config(started: HostLaunch) -> dict[str, Any]:
    return json.loads(started.environment["TF_CONFIG"])


def test_mirrored_starts_the_script_without_a_cluster() -> None:
    assert launch("mirrored", 1, 1) == HostLaunch(SCRIPT)
    assert launch("mirrored", 2, 2) == HostLaunch(SCRIPT)


def test_multi_worker_mirrored_sets_what_the_toolkit_sets_on_one_host_too() -> None:
    assert launch("multi_worker_mirrored", 2, 2).command == SCRIPT
    assert tf_config(launch("multi_worker_mirrored", 2, 2)) == {
        "cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
        "environment": "cloud",
        "task": {"index": 1, "type": "worker"},
    }
    assert tf_config(launch("multi_worker_mirrored", 1, 1)) == {
        "cluster": {"worker": ["algo-1:8890"]},
        "environment": "cloud",
        "task": {"index": 0, "type": "worker"},
    }


def test_parameter_server_sets_what_the_toolkit_sets() -> None:
    cluster = {
        "master": ["algo-1:2222"],
        "ps": ["algo-1:2223", "algo-2:2223", "algo-3:2223"],
        "worker": ["algo-2:2222", "algo-3:2222"],
    }
    tasks = ({"index": 0, "type": "master"}, {"index": 0, "type": "worker"}, {"index": 1, "type": "worker"})
    for number, task in enumerate(tasks):
        started = launch("parameter_server", 3, number + 1)
        assert tf_config(started) == {"cluster": cluster, "environment": "cloud", "task": task}
        *_, option, server, program, script = started.command
        assert (option, program, script) == ("--parameter-server", *SCRIPT)
        assert shown_command(started.command) == [*SCRIPT]
        assert json.loads(server) == {
            "cluster": cluster,
            "environment": "cloud",
            "task": {"index": number, "type": "ps"},
        }


def test_parameter_server_on_one_host_is_a_plain_script() -> None:
    assert launch("parameter_server", 1, 1) == HostLaunch(SCRIPT)


def test_hosts_that_share_a_network_share_no_port() -> None:
    everyone = {"algo-1": "127.0.0.1", "algo-2": "127.0.0.1"}
    started = launch("parameter_server", 2, 1, addresses=everyone, shared_network=True)
    assert tf_config(started)["cluster"] == {
        "master": ["127.0.0.1:2222"],
        "ps": ["127.0.0.1:2223", "127.0.0.1:2233"],
        "worker": ["127.0.0.1:2232"],
    }


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAgents]:
    made = HostAgents(tmp_path_factory.mktemp("hosts"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def workers(agents: HostAgents) -> list[Host]:
    hosts = agents.run("workers", {"train.py": WORKER}, 2, "multi_worker_mirrored")
    assert [host.code for host in hosts] == [0, 0], "\n".join(host.log for host in hosts)
    return hosts


@pytest.mark.slow
@pytest.mark.xdist_group("tensorflow-hosts")
def test_two_hosts_train_one_model(workers: list[Host]) -> None:
    first, second = (host.printed for host in workers)
    assert [rank["given"]["task"]["index"] for rank in (first, second)] == [0, 1]
    assert [rank["kind"] for rank in (first, second)] == ["CollectiveAllReduceStrategy"] * 2
    assert [rank["batch"] for rank in (first, second)] == [16, 16]
    assert first["losses"] == second["losses"]
    # The same examples, an epoch later.
    assert first["losses"][3] < first["losses"][1]
    assert [rank["sum"] for rank in (first, second)] == [3.0, 3.0]


@pytest.mark.slow
@pytest.mark.xdist_group("tensorflow-hosts")
def test_each_host_reads_its_own_share_of_the_data(workers: list[Host]) -> None:
    first, second = (host.printed["read"] for host in workers)
    assert len(first) == len(second) == 16
    assert sorted(first + second) == list(range(32))


@pytest.mark.slow
@pytest.mark.xdist_group("tensorflow-hosts")
def test_keras_3s_fit_is_refused_with_two_alternatives(workers: list[Host]) -> None:
    for host, method in itertools.product(workers, ("fit", "evaluate")):
        message = host.printed[method]
        assert f"Keras 3's model.{method} does not work under MultiWorkerMirroredStrategy" in message
        assert "TF_USE_LEGACY_KERAS=1" in message
        assert "strategy.run(step)" in message


@pytest.mark.slow
@pytest.mark.xdist_group("tensorflow-hosts")
def test_only_the_first_worker_saves(workers: list[Host]) -> None:
    first, second = workers
    assert [host.printed["first"] for host in workers] == [True, False]
    assert sorted(path.name for path in (first.ml / "model").iterdir()) == ["1", "model.keras"]
    assert list((second.ml / "model").iterdir()) == []
    assert len(list((first.folder / "checkpoints").iterdir())) == 1
    assert list((second.folder / "checkpoints").iterdir()) == []


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.xdist_group("tensorflow-hosts")
def test_a_script_for_tensorflow_1_finds_the_servers_of_all_hosts(agents: HostAgents) -> None:
    master, worker = agents.run("between-graph", {"train.py": BETWEEN_GRAPH}, 2, "parameter_server")
    assert (master.code, worker.code) == (0, 0), master.log + worker.log
    printed = master.printed
    assert printed["steps"] == 40
    assert printed["weight"] == pytest.approx(3.0, abs=0.01)
    assert printed["servers"] == ["/job:ps/task:0", "/job:ps/task:1"]
    # It had ended long before, but its server was still needed.
    assert worker.run["script_ended"] >= master.run["script_ended"] - 1


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.xdist_group("tensorflow-hosts")
def test_a_coordinator_of_tensorflow_2_uses_the_servers_of_all_hosts(agents: HostAgents) -> None:
    chief, worker = agents.run("coordinator", {"train.py": COORDINATED}, 2, "parameter_server")
    assert (chief.code, worker.code) == (0, 0), chief.log + worker.log
    assert chief.printed == {
        "counted": 5.0,
        "first": True,
        "servers": ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"],
    }
