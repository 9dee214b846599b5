"""The example of Ray Train on two nodes, of which one goes for good: ``EXAMPLE FOLDER BATCHES``.

After so many batches the node goes. A worker writes a line per batch, and one per loaded position.
"""

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path

import ray
import ray.train.torch
from ray.cluster_utils import Cluster


def recorded(train, folder, stop):
    """The training function, which writes down what it trains."""

    def work():
        from torch.nn.modules.module import register_module_forward_pre_hook

        from bload import Batch, BlockLoader

        context = ray.train.get_context()
        world, rank = context.get_world_size(), context.get_world_rank()
        file = (folder / f"{world}-{rank}-{os.getpid()}.jsonl").open("w")
        load, count = BlockLoader.load_state_dict, 0

        def write(line):
            print(json.dumps(line), file=file, flush=True)

        def load_and_write(loader, state):
            write([state["epoch"], state["step"]])
            load(loader, state)

        def before(module, arguments):
            nonlocal count
            if isinstance(arguments[0], Batch) and hasattr(module, "gru"):
                write(arguments[0].segments.sequence_S.tolist())
                count += 1
                if world == 2 and count >= stop:
                    (folder / "reached").touch()
                    time.sleep(0.5)  # until the node has gone

        BlockLoader.load_state_dict = load_and_write
        register_module_forward_pre_hook(before)
        train()

    return work


def remove(cluster, node, mark):
    while not mark.exists():
        time.sleep(0.1)
    cluster.remove_node(node, allow_graceful=False)


if __name__ == "__main__":
    example, folder, stop = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    sys.argv = [str(example)]  # Ray puts its folder on the path of the workers
    sys.path.insert(0, str(example.parent))
    cluster = Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 1})
    arguments = cluster, cluster.add_node(num_cpus=1), folder / "reached"
    trainer = ray.train.torch.TorchTrainer
    ray.train.torch.TorchTrainer = lambda train, **options: trainer(
        recorded(train, folder, stop), **options
    )
    threading.Thread(target=remove, args=arguments, daemon=True).start()
    runpy.run_path(str(example), run_name="__main__")
    ray.shutdown()  # before the nodes
    cluster.shutdown()
