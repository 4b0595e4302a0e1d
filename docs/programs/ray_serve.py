"""A model behind HTTP: Ray Serve gathers requests to batches, for two replicas.

``/health`` answers 200 when a replica is compiled, and never before.
"""

import asyncio
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor

WORKERS, BATCH, PORT = 2, 8, 8123


def model() -> og.CompiledGraph:
    """Make a classifier of 64 numbers, for any batch size."""
    random = np.random.default_rng(0)
    b = og.GraphBuilder()
    x = b.input((-1, 64), "f32", name="pixels")
    hidden = (x @ random.uniform(-1, 1, (64, 128)).astype(np.float32)).relu()
    b.output(scores=hidden @ random.uniform(-1, 1, (128, 10)).astype(np.float32))
    return b.compile()


@serve.deployment(num_replicas=WORKERS, ray_actor_options={"num_cpus": 1})
class Classifier:
    """A replica: it takes requests when its constructor has returned."""

    def __init__(self, shared: list[ray.ObjectRef]) -> None:
        # Batches may be smaller than the largest: each size is a set of shapes.
        sizes = [(n, 64) for n in range(1, BATCH + 1)]
        self.predictor = Predictor(ray.get(shared[0]), prepare=sizes)

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=0.005)
    async def classify(self, images: list[np.ndarray]) -> list[int]:
        """Run the requests of a batch at once."""
        # In a thread, so that further requests are gathered meanwhile.
        made = await asyncio.to_thread(self.predictor, {"pixels": np.stack(images)})
        return [int(scores.argmax()) for scores in made["scores"]]

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.url.path == "/health":
            return Response("ready", 200)
        image = np.asarray(await request.json(), np.float32)
        if image.shape != (64,):  # before it is in a batch with others
            return JSONResponse({"error": f"expected 64 numbers, got {image.shape}"}, 400)
        return JSONResponse({"digit": await self.classify(image)})


def post(image: list[float]) -> int:
    """Make a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/", json.dumps(image).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        digit: int = json.load(answer)["digit"]
        return digit


def main() -> None:
    """Serve, make some requests, and stop."""
    # Serve's own actors need no CPU, but the requests come from this process.
    ray.init(num_cpus=WORKERS + 1, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    try:
        serve.run(Classifier.bind([ray.put(model())]))  # returns when the replicas are ready
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=30) as answer:
            assert answer.status == 200
        images = np.random.default_rng(1).uniform(0, 1, (40, 64)).astype(np.float32)
        with ThreadPoolExecutor(8) as clients:
            digits = list(clients.map(post, images.tolist()))
        assert digits == model()(images).argmax(axis=1).tolist()
        print(f"{len(digits)} requests, the first is digit {digits[0]}")
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
