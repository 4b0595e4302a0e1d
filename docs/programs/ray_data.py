"""A data set through a model: Ray Data gives the batches to two workers and keeps their order."""

from functools import partial

import numpy as np
import ray
import ray.data

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor

WORKERS, BATCH = 2, 32


def model() -> og.CompiledGraph:
    """Make a classifier of 64 numbers, for any batch size."""
    random = np.random.default_rng(0)
    b = og.GraphBuilder()
    x = b.input((-1, 64), "f32", name="pixels")
    hidden = (x @ random.uniform(-1, 1, (64, 128)).astype(np.float32)).relu()
    b.output(scores=hidden @ random.uniform(-1, 1, (128, 10)).astype(np.float32))
    return b.compile()


def rows(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Make the columns that the model needs."""
    numbers = batch["id"].astype(np.float32)
    return {"id": batch["id"], "pixels": np.sin(numbers[:, None] + np.arange(64, dtype=np.float32))}


def main() -> None:
    """Run, and check each row."""
    # A CPU for each worker, and one more for the tasks that read: without it they would wait for
    # ever for the workers to end.
    ray.init(num_cpus=WORKERS + 1, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    shared = ray.put(model())  # the weights are in shared memory once, for all workers
    scored = (
        ray.data.range(1000)
        .map_batches(rows, batch_size=BATCH)
        .map_batches(
            Predictor,
            fn_constructor_args=[partial(ray.get, shared)],
            fn_constructor_kwargs={"prepare": [(BATCH, 64)]},
            batch_size=BATCH,
            num_cpus=1,  # Ray sets OMP_NUM_THREADS to it
            compute=ray.data.ActorPoolStrategy(size=WORKERS),
        )
        .take_all()
    )
    assert [row["id"] for row in scored] == list(range(1000))  # each once, in order
    wanted = model()(rows({"id": np.arange(1000)})["pixels"])
    assert np.allclose([row["scores"] for row in scored], wanted, atol=1e-4)
    print(f"{len(scored)} rows in order; row 7 is of class {scored[7]['scores'].argmax()}")
    ray.shutdown()


if __name__ == "__main__":
    main()
