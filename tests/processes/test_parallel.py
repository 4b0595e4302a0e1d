"""Predictors without Ray: batches, threads, processes."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
import worker_models
from worker_models import batches, mlp

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor

spawn = multiprocessing.get_context("spawn")
LONG = 60


@pytest.fixture(scope="module")
def model():
    return mlp(threads=1)


@pytest.fixture(scope="module")
def packed():
    return pickle.dumps(mlp())


# -- batches


def test_a_dict_gives_a_dict_and_passes_through_what_the_model_does_not_read(model):
    batch = batches(1)[0]
    p = Predictor(model, prepare=[(4, 64)])
    made = p(batch)
    assert list(made) == ["id", "y"] and made["id"] is batch["id"]
    assert (made["y"] == model(batch["x"])).all()
    assert model.stats().shapes == 1


def test_a_list_gives_a_list_of_all_outputs():
    b = og.GraphBuilder()
    x, y = b.input((2,), "f32", name="x"), b.input((2,), "f32", name="y")
    b.output(sum=x + y, product=x * y)
    one, two = np.float32([1, 2]), np.float32([3, 4])
    p = Predictor(b.compile())
    total, product = p([one, two])
    assert total.tolist() == [4, 6] and product.tolist() == [3, 8]
    assert [a.tolist() for a in p((one, two))] == [[4, 6], [3, 8]]
    assert list(p({"y": two, "x": one})) == ["sum", "product"]


def test_wrong_batches_raise_and_the_next_one_runs(model):
    batch = batches(1)[0]
    p = Predictor(model)
    with pytest.raises(og.InvalidArgumentsError, match="missing inputs: x; the batch has: id"):
        p({"id": batch["id"]})
    with pytest.raises(og.InvalidArgumentsError, match="has 'y', which is not an input"):
        p({**batch, "y": 1})
    with pytest.raises(og.InvalidDataTypeError):
        p({"x": batch["x"].astype(np.float64)})
    with pytest.raises(og.InvalidShapeError):
        p([batch["x"][:, :3]])
    with pytest.raises(TypeError, match="expected a batch as a dict, or as a list"):
        p(batch["x"])
    assert p(batch)["y"].shape == (4, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "threads must be a whole number, at least 1, got 0"),
        ({"threads": True}, "threads must be a whole number, at least 1, got True"),
        ({"prepare": [(4, 3)]}, "must have the shape"),
    ],
)
def test_wrong_arguments_raise(model, arguments, message):
    with pytest.raises(og.InvalidArgumentsError, match=message):
        Predictor(model, **arguments)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"expected a compiled model, .* got int"):
        Predictor(3)
    with pytest.raises(TypeError, match=r"expected a compiled model, .* got dict"):
        Predictor(dict)


def test_a_function_may_give_the_model(model):
    p = Predictor(lambda: model, threads=1)
    assert p.model is model


def test_a_builders_method_may_give_the_model(model):
    p = Predictor(model.builder.compile, threads=1)
    assert p.model.input_names == model.input_names


# -- threads


def test_a_model_is_compiled_for_other_threads(model):
    p = Predictor(model, threads=2)
    assert p.threads == p.model.threads == 2 and model.threads == 1
    batch = batches(1)[0]
    assert np.allclose(p(batch)["y"], model(batch["x"]), rtol=1e-5, atol=1e-6)


def test_the_environment_decides_if_nothing_else_does(packed):
    program = (
        "import pickle, sys; from onednn_graph_py.tools.parallel import Predictor\n"
        "model = pickle.loads(sys.stdin.buffer.read())\n"
        "print(Predictor(model).threads, Predictor(model, 3).threads)"
    )
    if og.version().cpu_runtime != "OpenMP":
        pytest.skip("the linked oneDNN does not run on OpenMP, so its runtime decides")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, input=packed, capture_output=True, env=environment, timeout=LONG)
    assert done.stdout.split() == [b"1", b"3"], done.stderr


# -- pickling and workers


def test_it_is_made_anew_where_it_is_unpickled(model):
    p = Predictor(model, threads=1, prepare=[(4, 64)])
    clone = pickle.loads(pickle.dumps(p))
    assert clone.threads == 1
    assert clone.model.stats().shapes == 1
    batch = batches(1)[0]
    assert clone(batch)["y"].tobytes() == model(batch["x"]).tobytes()


def test_a_function_pickles_instead_of_its_model():
    p = Predictor(mlp, threads=1)
    packed = pickle.dumps(p)
    assert len(packed) < 500
    assert pickle.loads(packed).threads == 1


def test_a_pool_gives_each_result_once_and_in_order(packed):
    given = batches(40)
    pool = ProcessPoolExecutor(2, spawn, worker_models.start, (packed,))
    try:
        made = list(pool.map(worker_models.work, given, timeout=LONG))
    finally:
        pool.shutdown(cancel_futures=True)
    assert [int(m["id"][0]) for m, _ in made] == list(range(40))
    wanted = pickle.loads(packed).with_threads(1)
    assert all((m["y"] == wanted(b["x"])).all() for (m, _), b in zip(made, given, strict=True))


def test_a_dead_worker_ends_its_pool(packed):
    with ProcessPoolExecutor(1, spawn, worker_models.start, (packed,)) as pool:
        assert pool.submit(worker_models.work, batches(1)[0]).result(LONG)[1]
        with pytest.raises(BrokenProcessPool):
            pool.submit(os._exit, 1).result(LONG)


def test_a_model_exported_from_torch_runs_as_any_other():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from onednn_graph_py.torch import export

    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    x = torch.randn(3, 8)
    p = Predictor(export(module, (x,)), threads=1)
    clone = pickle.loads(pickle.dumps(p))
    (y,) = clone([x.numpy()])
    assert np.allclose(y, module(x).detach().numpy(), atol=1e-5)


def test_an_onnx_model_runs_as_any_other():
    parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")
    front = pytest.importorskip("onednn_graph_py.onnx", reason="there is no room for ONNX")
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Add(a, x) }"""
    model = front.load(parser.parse_model(text))
    sets = [(3, 4), {"x": (5, 4)}, [(6, 4)]]
    p = Predictor(model, threads=1, prepare=sets)
    x = np.ones((3, 4), np.float32)
    made = p({"x": x, "id": 1})
    assert made["id"] == 1 and (made["y"] == 2).all() and p.threads == 1
    clone = pickle.loads(pickle.dumps(p))
    assert (clone([x])[0] == 2).all()


def test_importing_it_imports_no_engine():
    program = (
        "import onednn_graph_py.tools.parallel, sys; print({'ray', 'joblib'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"
