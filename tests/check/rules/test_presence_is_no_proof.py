"""A parameter, flag or call silences a rule by what it does, not by being there."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def codes(folder: Path, files: dict[str, str], select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(select,))))
    return [hit.code for hit in report.hits]


ESTIMATOR = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="{version}", py_version="py312", {given}).fit()
"""
INSTANCES = 'instance_type="ml.g5.xlarge", instance_count=1'


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ('instance_type="ml.g5.xlarge"', ["SDK104"]),
        ('instance_type="ml.g5.xlarge", instance_count=None', ["SDK104"]),
        (INSTANCES, []),
        ('training_recipe="training/llama/x"', []),
        ("**settings", []),
    ],
)
def test_an_estimator_needs_its_number_of_instances(given: str, found: list[str], tmp_path: Path) -> None:
    launcher = "from settings import settings\n" + ESTIMATOR.format(version="2.6", given=given)
    assert codes(tmp_path, {"launch.py": launcher}, "SDK104") == found


@pytest.mark.parametrize(
    ("given", "found"),
    [("", ["FW101"]), ("image_uri=None, ", ["FW101"]), ('image_uri="mine:1", ', [])],
)
def test_an_image_that_is_none_is_no_image(given: str, found: list[str], tmp_path: Path) -> None:
    launcher = ESTIMATOR.format(version="1.14", given=given + INSTANCES)
    assert codes(tmp_path, {"launch.py": launcher}, "FW101") == found


TENSORFLOW = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge", {given}).fit()
"""
SAVES = """
import argparse
import os
import keras

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])
args = parser.parse_args()
keras.Sequential([]).save(os.path.join(args.model_dir, "1.keras"))
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("model_dir=None", ["SM104"]),
        ('model_dir="s3://bucket/out"', ["SM104"]),
        ("model_dir=False", []),
        ("model_dir=folder", []),
        ('distribution={"mpi": {"enabled": False}}', ["SM104"]),
        ('distribution={"mpi": {"enabled": True}}', []),
    ],
)
def test_the_folder_is_an_address_unless_the_estimator_passes_another(
    given: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"launch.py": TENSORFLOW.format(given=given), "train.py": SAVES}, "SM104") == found


LOOP = """
import torch
from tqdm import tqdm

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
progress = tqdm(total=10)
for _ in range(10):
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
    scaler.step(optimizer)
    {update}
"""


@pytest.mark.parametrize(("update", "found"), [("progress.update(1)", ["PF113"]), ("scaler.update()", [])])
def test_the_update_of_a_progress_bar_is_not_that_of_the_scaler(
    update: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": LOOP.format(update=update)}, "PF113") == found


EPOCHS = """
import torch
from torch.utils.data import DistributedSampler

train_sampler = DistributedSampler([])
hard_sampler = DistributedSampler([])
for epoch in range(3):
    {call}.set_epoch(epoch)
    torch.ones(1).backward()
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [("hard_sampler", ["DS108"]), ("train_sampler", ["DS108"]), ("loader.sampler", [])],
)
def test_set_epoch_of_another_sampler_does_not_count(call: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": EPOCHS.format(call=call)}, "DS108") == found


GROWTH = """
import os
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices({given})
tf.config.experimental.set_memory_growth(gpus[0], True)
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [('gpus, "GPU"', ["TF106"]), ('[], "CPU"', ["TF106"]), ('gpus[0], "GPU"', []), ("some", [])],
)
def test_visible_devices_matter_if_they_are_fewer_gpus(given: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": GROWTH.format(given=given)}, "TF106") == found


HOSTS = """
import argparse
import json
import os
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", default=json.loads(os.environ["SM_HOSTS"]))
args = parser.parse_args()
with tf.distribute.MirroredStrategy().scope():
    model = tf.keras.Sequential()
    model.compile()
{use}
model.fit([])
"""
TWO = """
from sagemaker.tensorflow import TensorFlow

TensorFlow(entry_point="train.py", role="r", instance_count=2, instance_type="ml.g5.12xlarge").fit()
"""


@pytest.mark.parametrize(
    ("use", "found"),
    [("", ["DS106"]), ("files = all_files[:: len(args.hosts)]", []), ("share(vars(args))", [])],
)
def test_hosts_that_are_declared_and_not_read_share_nothing(
    use: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": TWO, "train.py": HOSTS.format(use=use)}
    assert codes(tmp_path, files, "DS106") == found


GLOO = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
{line}
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
"""
P4D = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=2,
    instance_type="ml.p4d.24xlarge", distribution={"torch_distributed": {"enabled": True}},
).fit()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('gpus = dist.new_group(backend="nccl")', []),
        ("gpus = dist.new_group(backend=chosen)", []),
        ("plan = CPUOffload(offload_params=True)", []),
        ("plan = fully_shard(net, offload_policy=CPUOffloadPolicy())", []),
        ("evens = dist.new_group([0, 2])", ["DS113"]),
        ('hosts = dist.new_group([0, 2], backend="gloo")', ["DS113"]),
        ("print(dist.is_nccl_available())", ["DS113"]),
        ("plan = CPUOffload(offload_params=False)", ["DS113"]),
        ("plan = wrap(net, cpu_offload=None)", ["DS113"]),
        ("saving = FullStateDictConfig(offload_to_cpu=True)", ["DS113"]),
    ],
)
def test_gloo_has_a_reason_if_another_group_has_nccl_or_parameters_are_on_the_host(
    line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": P4D, "train.py": GLOO.format(line=line)}
    assert codes(tmp_path, files, "DS113") == found


ADDED = """
import torch

model = Net()
critic = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
slow = torch.optim.SGD(critic.parameters(), lr=0.01)
model.head = torch.nn.Linear(4, 2)
{line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('optimizer.add_param_group({"params": model.head.parameters()})', []),
        ('self.optimizer.add_param_group({"params": model.head.parameters()})', []),
        ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", []),
        ("wrapped = Wrapper(model)\nsecond = torch.optim.SGD(wrapped.parameters(), lr=0.1)", []),
        ("second = torch.optim.SGD(model.head.parameters(), lr=0.1)", []),
        ('slow.add_param_group({"params": model.head.parameters()})', ["PF122"]),
        ("second = torch.optim.SGD(critic.parameters(), lr=0.1)", ["PF122"]),
        ("", ["PF122"]),
    ],
)
def test_a_layer_is_trained_if_an_optimizer_of_this_model_gets_it(
    line: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": ADDED.format(line=line)}, "PF122") == found


SAVED = """
import argparse
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(torch.nn.Linear(8, 1).to(local_rank), device_ids=[local_rank])
model(torch.ones(8)).sum().backward()
state = model.module.state_dict()
{save}
"""


@pytest.mark.parametrize(
    ("save", "found"),
    [
        ('if dist.get_rank() == 0:\n    torch.save(state, "m.pt")', []),
        ('if not args.distributed or local_rank == 0:\n    torch.save(state, "m.pt")', []),
        ('if dist.is_initialized():\n    pass\nelse:\n    torch.save(state, "m.pt")', []),
        ('if not dist.is_initialized():\n    torch.save(state, "m.pt")', []),
        ('if dist.get_world_size() == 1:\n    torch.save(state, "m.pt")', []),
        ('if args.distributed and args.is_main:\n    torch.save(state, "m.pt")', []),
        ('if main_process:\n    torch.save(state, "m.pt")', []),
        ("torch.save(state, args.host_path)", []),
        ('torch.save(state, f"{os.getpid()}.pt")', []),
        ('model = FSDP(model)\ntorch.save(state, "m.pt")', []),
        ('if dist.is_initialized():\n    torch.save(state, "m.pt")', ["DS114"]),
        ('if args.process == 0:\n    torch.save(state, "m.pt")', []),
        ('if dist.get_world_size() > 1:\n    torch.save(state, "m.pt")', ["DS114"]),
        ('if args.num_workers > 0:\n    torch.save(state, "m.pt")', ["DS114"]),
        ('if args.preprocess:\n    torch.save(state, "m.pt")', ["DS114"]),
        ('template_path = "m.pt"\ntorch.save(state, template_path)', ["DS114"]),
        ("torch.save(state, args.preprocessed_path)", ["DS114"]),
        ('print(isinstance(model, FSDP))\ntorch.save(state, "m.pt")', ["DS114"]),
    ],
)
def test_only_a_condition_or_name_that_differs_between_ranks_guards_a_save(
    save: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": SAVED.format(save=save)}, "DS114") == found


WITH_EPOCHS = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="r", framework_version="2.6", py_version="py312",
    instance_type="ml.g5.xlarge", instance_count=1, hyperparameters={"epochs": 50},
).fit()
"""
TRAINS = """
import argparse
import json
import os
import sys
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3, help="SM_HPS has it, too")
args = parser.parse_args()
{line}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4)).sum().backward()
optimizer.step()
"""
NOT_PARSED = TRAINS.replace("args = parser.parse_args()\n", "")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for epoch in range(args.epochs): pass", []),
        ("if args.epochs > 4: torch.manual_seed(1)", []),
        ("train(args)", []),
        ("settings = {**vars(args)}", []),
        ('epochs = getattr(args, "epochs")', []),
        ("epochs = getattr(args, name)", []),
        ('epochs = json.loads(os.environ["SM_HPS"])["epochs"]', []),
        ('epochs = os.environ["SM_HP_EPOCHS"]', []),
        ('rate = os.environ["SM_HP_LR"]', ["SM107"]),
        ("print(args)", ["SM107"]),
        ('print(f"{args.epochs} epochs")', ["SM107"]),
        ("args.epochs = 3", ["SM107"]),
        ('print("SM_HPS")', ["SM107"]),
    ],
)
def test_a_hyperparameter_is_read_if_what_was_parsed_is_used(
    line: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"launch.py": WITH_EPOCHS, "train.py": TRAINS.format(line=line)}, "SM107") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("known, _ = parser.parse_known_args()\nepochs = known.epochs", []),
        ("epochs = int(sys.argv[2])", []),
        ("settings = dict(os.environ)", []),
        ("print(os.environ)", ["SM107"]),
        ('os.environ.update({"OMP_NUM_THREADS": "4"})', ["SM107"]),
        ('debug = "DEBUG" in os.environ', ["SM107"]),
        ("print(sys.argv)", ["SM107"]),
        ("name = sys.argv[0]", ["SM107"]),
        ("", ["SM107"]),
    ],
)
def test_a_parser_that_is_only_declared_reads_nothing(line: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": WITH_EPOCHS, "train.py": NOT_PARSED.format(line=line)}
    assert codes(tmp_path, files, "SM107") == found


BOOSTED = """
from sagemaker.xgboost import XGBoost

XGBoost(
    entry_point="train.py", role="r", framework_version="1.7-1", instance_count=1, instance_type="ml.g5.xlarge",
    hyperparameters={parameters},
).fit()
"""
BOOSTS = """
import argparse
import os
import xgboost

parser = argparse.ArgumentParser()
parser.add_argument("--use-gpu", action="store_true")
parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
args, _ = parser.parse_known_args()
{line}
xgboost.train({{"device": args.device}}, xgboost.DMatrix("train"))
"""


@pytest.mark.parametrize(
    ("parameters", "line", "found"),
    [
        ('{"tree_method": "gpu_hist"}', "", []),
        ('{"device": chosen}', "", []),
        ('{"gpu_id": "0"}', "", []),
        ("{}", 'args.device = "cuda" if args.use_gpu else "cpu"', []),
        ("{}", "model = xgboost.XGBClassifier(n_gpus=1)", []),
        ("{}", "import cupy\ncupy.ones(1)", []),
        ("{}", 'os.system("python other.py")', []),
        ("{}", "", ["CO105"]),
        ('{"device": "cpu"}', "", ["CO105"]),
        ('{"tree_method": "hist"}', "", ["CO105"]),
        ("{}", 'print("no GPU needed")', ["CO105"]),
        ("{}", "model = xgboost.XGBClassifier(use_gpu=False)", ["CO105"]),
        ("{}", 'gpus = int(os.environ["SM_NUM_GPUS"])', ["CO105"]),
    ],
)
def test_xgboost_uses_the_gpu_only_if_something_asks_for_it(
    parameters: str, line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": BOOSTED.format(parameters=parameters), "train.py": BOOSTS.format(line=line)}
    assert codes(tmp_path, files, "CO105") == found


TABLES = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
{line}
LogisticRegression().fit(pd.read_csv("/opt/ml/input/data/train/t.csv"), [])
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import subprocess\nsubprocess.run(['python', 'gpu.py'])", []),
        ("import torch", []),
        ('device = "cuda"', ["CO105"]),
        ('print("GPU")', ["CO105"]),
    ],
)
def test_a_word_lets_no_cpu_library_use_the_gpu(line: str, found: list[str], tmp_path: Path) -> None:
    launcher = ESTIMATOR.format(version="2.6", given=INSTANCES)
    assert codes(tmp_path, {"launch.py": launcher, "train.py": TABLES.format(line=line)}, "CO105") == found


PROCESSES = """
from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor

processor = ScriptProcessor(
    image_uri="i", command=["python3"], role="r", instance_count=1, instance_type="ml.m5.xlarge", env={{"SIZE": "4"}}
)
processor.run(code="process.py", {mounts})
"""
OUTPUT = 'outputs=[ProcessingOutput(source="/opt/ml/processing/output", destination="s3://b/out")]'
LABELS = 'inputs=[ProcessingInput(source="s3://b/labels", destination="/opt/ml/processing/labels")]'
WRITES = """
import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=10)
parser.add_argument("--to", default="/opt/ml/processing/output")
parser.add_argument("--other")
args = parser.parse_args()
base = "/opt/ml/processing"
result = np.ones(int(os.environ["SIZE"]))
np.save("/tmp/scratch.npy", result)
{line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('np.save("/opt/ml/processing/output/r.npy", result)', []),
        ('np.save(os.path.join(base, "output", "r.npy"), result)', []),
        ('np.save(f"{base}/{kind}/r.npy", result)', []),
        ("pd.DataFrame(result).to_csv(Path(args.to) / 'r.csv')", []),
        ("np.save(args.other, result)", []),
        ("np.save(sys.argv[1], result)", []),
        ('np.save(os.environ["TARGET"], result)', []),
        ("def save(folder):\n    np.save(folder + '/r.npy', result)\nsave(args.to)", []),
        ('with open(Path(base) / "output" / "r.txt", "w") as file:\n    file.write("1")', []),
        ('os.chdir("/opt/ml/processing/output")\nnp.save("r.npy", result)', []),
        ('np.save("output/r.npy", result)', []),
        ("", ["SM114"]),
        ("os.makedirs(args.to, exist_ok=True)", ["SM114"]),
        ("print(args.to, os.listdir(args.to))", ["SM114"]),
        ('np.save(os.path.join(base, "input", "r.npy"), result)', ["SM114"]),
        ("print(sys.argv)", ["SM114"]),
        ('region = os.environ["AWS_REGION"]', ["SM114"]),
        ('print(open("/opt/ml/processing/output/r.txt").read())', ["SM114"]),
    ],
)
def test_an_output_is_written_if_its_path_reaches_a_call_that_writes(
    line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": PROCESSES.format(mounts=OUTPUT), "process.py": WRITES.format(line=line)}
    assert codes(tmp_path, files, "SM114") == found


READS = """
import argparse
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=10)
parser.add_argument("--labels", default="/opt/ml/processing/labels")
args = parser.parse_args()
base = "/opt/ml/processing"
print(pd.read_csv(os.path.join(base, "rows", "all.csv")).head(args.rows))
{line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('print(pd.read_csv("/opt/ml/processing/labels/all.csv"))', []),
        ("print(pd.read_csv(os.path.join(args.labels, 'all.csv')))", []),
        ("for file in Path(base).rglob('*.csv'):\n    pd.read_csv(file)", []),
        ("for file in os.listdir(args.labels):\n    pd.read_csv(file)", []),
        ('subprocess.run(["tar", "xf", "x.tar"])', []),
        ('subprocess.run([sys.executable, "other.py"])', []),
        ("sys.path.append(somewhere)", []),
        ('sys.path.append("/opt/ml/processing/labels")', []),
        ('sys.path.append("/opt/ml/code")', ["SM125"]),
        ('pd.read_csv(os.environ["LABELS"])', []),
        ("pd.read_csv(sys.argv[1])", []),
        ("", ["SM125"]),
        ("print(args.labels)", ["SM125"]),
        ("print(os.listdir(args.labels))", ["SM125"]),
        ('assert os.path.isdir(args.labels), "no labels"', ["SM125"]),
        ('subprocess.run([sys.executable, "-m", "pip", "install", "pyarrow"])', ["SM125"]),
        ('threads = int(os.environ["OMP_NUM_THREADS"])', ["SM125"]),
    ],
)
def test_an_input_is_read_if_its_path_reaches_a_call_that_reads(
    line: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": PROCESSES.format(mounts=LABELS), "process.py": READS.format(line=line)}
    assert codes(tmp_path, files, "SM125") == found


FOUR_GPUS = ESTIMATOR.format(version="2.6", given='instance_type="ml.g5.12xlarge", instance_count=1')
ONE_OF_FOUR = """
import argparse
import multiprocessing
import os
import subprocess
import sys
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--num-gpus", type=int, default=os.environ["SM_NUM_GPUS"])
args = parser.parse_args()
device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{line}
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(4, device=device)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("model = torch.nn.DataParallel(model, device_ids=list(range(args.num_gpus)))", []),
        ("model = spread(model, devices=args.num_gpus)", []),
        ('model = load("m", device_map="auto")', []),
        ("model = wrap(model, device_ids=[0, 1])", []),
        ('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))', []),
        ('subprocess.check_call(["torchrun", "other.py"])', []),
        ('os.system("pip install x && python other.py")', []),
        ("pool = multiprocessing.Pool(4)", []),
        ("args.batch = 4 * args.num_gpus\nload(batch_size=args.batch)", []),
        ("", ["DS101"]),
        ("print(args.num_gpus)", ["DS101"]),
        ("use_cuda = args.num_gpus > 0", ["DS101"]),
        ("workers = multiprocessing.cpu_count()", ["DS101"]),
        ('subprocess.check_call([sys.executable, "-m", "pip", "install", "timm"])', ["DS101"]),
        ('os.system("nvidia-smi")', ["DS101"]),
        ('model = load("m", device_map={"": 0})', ["DS101"]),
        ('model = load("m", device_map="cuda:0", devices=1)', ["DS101"]),
        ("print(dist.is_available())", ["DS101"]),
        ('print("Use torchrun for several GPUs")', ["DS101"]),
    ],
)
def test_gpus_are_used_if_something_gets_more_than_one(line: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": FOUR_GPUS, "train.py": ONE_OF_FOUR.format(line=line)}
    assert codes(tmp_path, files, "DS101") == found


SEEDS = """
import torch
{imports}

def evaluate(model, batch):
    model.eval()
    return model(batch)
"""


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ("from accelerate import Accelerator", []),
        ("import lightning\n\nclass Net(lightning.LightningModule): pass", []),
        ("from accelerate.utils import set_seed\nset_seed(1)", ["PF104"]),
        ("import lightning\nlightning.seed_everything(1)", ["PF104"]),
        ("import accelerate\nprint(accelerate.__version__)", ["PF104"]),
    ],
)
def test_the_seed_of_a_library_moves_no_model(imports: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": SEEDS.format(imports=imports)}, "PF104") == found
