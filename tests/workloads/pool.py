"""Processes that stay up for many cases, because starting PyTorch costs seconds, and a case a
fraction of one."""

import os
import tempfile
import traceback

import torch
import torch.multiprocessing as processes


def _work(rank, size, folder, tasks, results):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=size)
    while True:
        task = tasks.get()
        if task is None:
            return
        function, arguments = task
        try:
            results.put((rank, function(rank, size, *arguments), None))
        except Exception:
            results.put((rank, None, traceback.format_exc()))


class Pool:
    """A pool of `size` ranks that each run function(rank, size, *arguments)."""

    def __init__(self, size):
        self.folder = tempfile.TemporaryDirectory(prefix="meshwright-pool-")
        spawn = processes.get_context("spawn")
        self.results = spawn.Queue()
        self.tasks = [spawn.Queue() for _ in range(size)]
        self.workers = [
            spawn.Process(target=_work, args=(rank, size, self.folder.name, tasks, self.results), daemon=True)
            for rank, tasks in enumerate(self.tasks)]
        for worker in self.workers:
            worker.start()

    def run(self, function, *arguments):
        """Returns the result of each rank, in the order of ranks."""
        for tasks in self.tasks:
            tasks.put((function, arguments))
        given = [self.results.get(timeout=600) for _ in self.tasks]
        errors = [error for _, _, error in given if error]
        if errors:
            raise AssertionError(errors[0])
        return [value for _, value, _ in sorted(given, key=lambda one: one[0])]

    def close(self):
        for tasks in self.tasks:
            tasks.put(None)
        for worker in self.workers:
            worker.join(10)
            worker.kill()
        self.folder.cleanup()
