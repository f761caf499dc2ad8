"""fork, DataLoader workers, threads and pinned memory, with our CPU allocator installed."""
import os
import threading

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import triaccel


@pytest.fixture(autouse=True, scope="module")
def counted_memory():
    triaccel._C.install_cpu_memory()


def train_a_step(seed: int = 0) -> float:
    torch.manual_seed(seed)
    model = nn.Linear(8, 3)
    optimizer = triaccel.optim.AdamW(model.parameters(), lr=1e-2, state_bits=8)
    loss = nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(3, (16,)))
    loss.backward()
    optimizer.step()
    return sum(p.sum().item() for p in model.parameters())


def test_memory_is_counted_and_limited():
    before = triaccel._C.cpu_memory_used()
    tensor = torch.zeros(1 << 20)
    assert triaccel._C.cpu_memory_used() - before >= 4 << 20
    triaccel._C.limit_cpu_memory(triaccel._C.cpu_memory_used() + 1000)
    try:
        with pytest.raises(RuntimeError, match="would pass the budget"):
            torch.zeros(1 << 20)
    finally:
        triaccel._C.limit_cpu_memory(0)
    del tensor
    assert triaccel._C.cpu_memory_used() == before


@pytest.mark.parametrize("how,workers", [("fork", 2), ("spawn", 1)])  # spawned workers import torch again
def test_loader_workers(how, workers):
    data = TensorDataset(torch.arange(64.0).reshape(64, 1).repeat(1, 100), torch.arange(64))
    loader = DataLoader(data, batch_size=8, num_workers=workers, multiprocessing_context=how, persistent_workers=how == "spawn")
    for _ in range(2):
        seen = []
        for images, labels in loader:
            assert torch.equal(images[:, 0], labels.float())
            seen += labels.tolist()
        assert seen == list(range(64))


def test_fork():
    expected = train_a_step()
    pid = os.fork()
    if pid == 0:
        torch.set_num_threads(1)
        os._exit(0 if train_a_step() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_tensors_between_processes():
    context = torch.multiprocessing.get_context("fork")
    queue, received = context.Queue(), context.Event()

    def send():
        queue.put(torch.arange(1000.0))
        received.wait(60)  # the sender must live until then

    child = context.Process(target=send)
    child.start()
    assert torch.equal(queue.get(timeout=60), torch.arange(1000.0))
    received.set()
    child.join()
    shared = torch.zeros(10).share_memory_()
    child = context.Process(target=lambda: shared.add_(1))
    child.start()
    child.join()
    assert shared.eq(1).all()


def test_threads():
    expected, got = train_a_step(), []
    lock = threading.Lock()

    def work():
        with lock:  # torch's generator is one for all threads
            got.append(train_a_step())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_pinned_memory():
    data = TensorDataset(torch.arange(64.0))
    for (batch,) in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        assert batch.is_pinned()
        assert torch.equal(batch.cuda(non_blocking=True).cpu(), batch)


def test_numpy_and_storage_share_our_memory():
    numpy = pytest.importorskip("numpy")
    tensor = torch.arange(10.0)
    array = tensor.numpy()
    array += 1
    assert tensor[0] == 1
    assert torch.from_numpy(numpy.arange(5)).sum() == 10
    grown = torch.arange(10.0).resize_(1000)  # reallocates through our allocator
    assert grown[9] == 9
