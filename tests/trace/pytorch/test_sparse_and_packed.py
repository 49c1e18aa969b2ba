"""Tensors whose shapes are known although values decide them: packed sequences, sparse matrices, sparse gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.memory import estimate_memory
from gpuproof.trace.document import Trace
from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

TAGGER = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, 5)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, cell) = self.lstm(packed)
        padded, back = pad_packed_sequence(output, batch_first=True)
        assert padded.shape == (4, 30, 256) and hidden.shape == cell.shape == (4, 4, 128)
        assert len(back) == 4
        return self.head(padded)

model = Tagger().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
lengths = torch.tensor([10, 30, 2, 20])
for _ in range(10):
    tokens = torch.randint(100, (4, 30)).cuda()
    optimizer.zero_grad()
    model(tokens, lengths).sum().backward()
    optimizer.step()
"""


def flops(trace: Trace, name: str) -> float:
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if operator.name == name and operator.phase == "forward"
    )


def test_an_lstm_over_packed_sentences_computes_the_words_that_there_are(tmp_path: Path) -> None:
    packed = trace_of(tmp_path, TAGGER)
    assert packed.steps == 3
    short = trace_of(tmp_path, TAGGER.replace("[10, 30, 2, 20]", "[3, 30, 2, 1]"))
    ratio = flops(short, "aten.mkldnn_rnn_layer") / flops(packed, "aten.mkldnn_rnn_layer")
    assert ratio == pytest.approx((3 + 30 + 2 + 1) / (10 + 30 + 2 + 20), abs=0.3)


def test_lengths_on_the_gpu_are_refused_as_pytorch_does(tmp_path: Path) -> None:
    failure = failure_of(
        tmp_path, TAGGER.replace("torch.tensor([10, 30, 2, 20])", "torch.tensor([10, 30, 2, 20]).cuda()")
    )
    assert "should be a 1D CPU int64 tensor" in failure.message


GRAPH = """
import torch
from torch import nn

nodes, edges = 100_000, 500_000
places = torch.randint(0, nodes, (2, edges))
matrix = {matrix}
model = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 7)).cuda()
optimizer = torch.optim.Adam(model.parameters())
inputs, labels = torch.randn(nodes, 32).cuda(), torch.randint(0, 7, (nodes,)).cuda()
assert matrix.is_sparse and matrix.is_cuda and matrix._nnz() == edges
for _ in range(10):
    optimizer.zero_grad()
    hidden = torch.relu(torch.sparse.mm(matrix, model[0](inputs)))
    loss = nn.functional.cross_entropy(matrix @ model[1](hidden), labels)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "matrix",
    [
        'torch.sparse_coo_tensor(places, torch.ones(edges), (nodes, nodes)).to("cuda")',
        "torch.sparse_coo_tensor(places.cuda(), torch.ones(edges).cuda(), (nodes, nodes)).coalesce()",
        'torch.sparse_coo_tensor(places, torch.ones(edges), (nodes, nodes), device="cuda")',
    ],
)
def test_a_sparse_matrix_takes_the_memory_and_the_work_of_its_values(tmp_path: Path, matrix: str) -> None:
    trace = trace_of(tmp_path, GRAPH.format(matrix=matrix))
    gpu = Catalogue.load().gpu("A10G")
    assert gpu is not None
    dense = 100_000 * 100_000 * 4
    assert estimate_memory(trace, gpu).allocated < dense / 100
    assert (500_000 * (2 * 8 + 4), "input") in {
        (size, ("parameter", "gradient", "optimizer", "buffer", "input")[kind])
        for size, kind in trace.memory.blocks
        if kind < 5
    } or "coalesce" in matrix
    products = [operator for operator in trace.operators if operator.flops == 2.0 * 500_000 * 64]
    assert sum(operator.calls for operator in products) == 2  # forward, and of the gradient


SPARSE_GRADIENTS = """
import torch

embedding = torch.nn.Embedding(1_000_000, 64, sparse={sparse}).cuda()
optimizer = torch.optim.{optimizer}
for _ in range(10):
    optimizer.zero_grad()
    embedding(torch.randint(0, 1_000_000, (256,)).cuda()).pow(2).sum().backward()
    assert embedding.weight.grad.is_sparse == {sparse}
    optimizer.step()
"""


@pytest.mark.parametrize(
    "optimizer", ["SparseAdam(embedding.parameters())", "SGD(embedding.parameters(), lr=0.1)"]
)
def test_gradients_of_some_rows_take_little(tmp_path: Path, optimizer: str) -> None:
    gpu = Catalogue.load().gpu("A10G")
    assert gpu is not None
    table = 1_000_000 * 64 * 4
    trace = trace_of(tmp_path, SPARSE_GRADIENTS.format(sparse=True, optimizer=optimizer))
    states = 2 if "Adam" in optimizer else 0
    assert estimate_memory(trace, gpu).allocated == pytest.approx((1 + states) * table, rel=0.05)
    moved = sum(operator.bytes * operator.calls for operator in trace.operators)
    assert moved < table / 50


SPEECH = """
import torch

model = torch.nn.Linear(40, 30).cuda()
criterion = torch.nn.CTCLoss(zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    probabilities = model(torch.randn(50, 4, 40).cuda()).log_softmax(-1)
    targets = torch.randint(1, 30, (4, 12)).cuda()
    loss = criterion(probabilities, targets, torch.full((4,), 50), torch.tensor([12, 3, 7, 9]){device})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("device", ["", ".cuda()"])
def test_ctc_keeps_the_probabilities_of_alignments(tmp_path: Path, device: str) -> None:
    trace = trace_of(tmp_path, SPEECH.format(device=device))
    assert (trace.steps, trace.findings) == (3, [])
    assert 4 * 50 * (2 * 12 + 1) * 4 in {size for size, _ in trace.memory.blocks}
