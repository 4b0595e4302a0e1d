"""Models in many processes: `Predictor` is a worker of Ray, joblib or concurrent.futures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, Protocol

from ..base.arguments import need_whole
from ..base.errors import InvalidArgumentsError

__all__ = ["Model", "Predictor"]


class Model(Protocol):
    """A model as a predictor needs it."""

    name: str

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs' names, in the order of a call."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs' names."""

    @property
    def threads(self) -> int:
        """Threads of a call."""

    def with_threads(self, threads: int) -> Model:
        """Compile the same model for calls with so many threads."""

    def prepare(self, *shapes: Any) -> Any:
        """Compile for sets of input shapes."""

    def __call__(self, *arrays: Any) -> Any:
        """Run; return the output, or a sequence of all outputs if there are several."""


class Predictor:
    """A model that is ready to run in a process of its own.

    It compiles the model in the process in which it is made. It pickles as the model and the
    arguments, so whoever unpickles it gets a predictor that is made anew. Batches are dicts of
    arrays by name, as Ray Data has them, or sequences of arrays.

    Parameters
    ----------
    model : CompiledGraph, OnnxModel, or callable
        A function without arguments gives the model where it is to run, such as
        ``partial(ray.get, reference)`` or ``partial(og.onnx.load, path)``.
    threads : int, optional
        Threads of a call. The model is compiled anew if it has others; by default they stay. A
        model that was compiled without a number has as many as ``OMP_NUM_THREADS`` says, where it
        is unpickled; Ray sets that to ``num_cpus``.
    prepare : iterable of sets of shapes
        Shapes that are compiled at once; each is an argument of `CompiledGraph.prepare`.

    Raises
    ------
    InvalidArgumentsError
        An argument is invalid.

    Examples
    --------
    >>> import numpy as np, onednn_graph_py as og
    >>> b = og.GraphBuilder()
    >>> x = b.input((-1, 2), "f32", name="x")
    >>> b.output(y=x.relu())
    >>> predictor = og.parallel.Predictor(b.compile(), threads=1, prepare=[(3, 2)])
    >>> predictor({"x": np.array([[-1, 1]], np.float32), "id": np.array([7])})
    {'id': array([7]), 'y': array([[0., 1.]], dtype=float32)}
    """

    def __init__(
        self,
        model: Model | Callable[[], Model],
        threads: int | None = None,
        prepare: Iterable[Any] = (),
    ) -> None:
        if threads is not None:
            threads = need_whole("threads", threads)
        self.__setstate__((model, threads, tuple(prepare)))

    def __getstate__(self) -> Any:
        # What was given, or else a model that has been compiled for the right threads already.
        source = self._model if _is_model(self._source) else self._source
        return source, self._threads, self._prepare

    def __setstate__(self, state: Any) -> None:
        self._source: Any
        self._threads: int | None
        self._source, self._threads, self._prepare = state
        model = self._source if _is_model(self._source) else _made(self._source)
        if self._threads is not None and self._threads != model.threads:
            model = model.with_threads(self._threads)
        self._model: Model = model
        if self._prepare:
            self._model.prepare(*self._prepare)

    def __repr__(self) -> str:
        return f"<Predictor {self._model.name!r}: {self.threads} threads>"

    @property
    def model(self) -> Model:
        """The model, compiled for `threads`."""
        return self._model

    @property
    def threads(self) -> int:
        """Threads of a call."""
        return self._model.threads

    def __call__(self, batch: Mapping[str, Any] | Sequence[Any]) -> Any:
        """Run the model on a batch.

        Parameters
        ----------
        batch : mapping of str to array, or list or tuple of arrays
            The inputs by name, or all of them in order.

        Returns
        -------
        dict or list
            All outputs. Those of a mapping have names, and entries that the model does not read are
            there too, unchanged.

        Raises
        ------
        InvalidArgumentsError
            Inputs are missing, or such an entry has the name of an output.
        OneDNNError, TypeError
            The model refuses the batch. The predictor goes on with the next one.
        """
        model = self._model
        if not isinstance(batch, Mapping):
            if isinstance(batch, (list, tuple)):
                return list(_results(model, model(*batch)))
            raise TypeError(
                f"{model.name}: expected a batch as a dict, or as a list or tuple of arrays, got "
                f"{type(batch).__name__}"
            )
        missing = [name for name in model.input_names if name not in batch]
        if missing:
            raise InvalidArgumentsError(
                f"{model.name}: missing inputs: {', '.join(missing)}; the batch has: "
                f"{', '.join(map(str, batch))}"
            )
        made = {name: array for name, array in batch.items() if name not in model.input_names}
        clash = [name for name in model.output_names if name in made]
        if clash:
            raise InvalidArgumentsError(
                f"{model.name}: the batch has {clash[0]!r}, which is not an input, and the model "
                "has an output of that name; rename one"
            )
        results = _results(model, model(*(batch[name] for name in model.input_names)))
        made.update(zip(model.output_names, results, strict=True))
        return made


def _results(model: Model, made: Any) -> Sequence[Any]:
    return [made] if len(model.output_names) == 1 else made


def _is_model(given: Any) -> bool:
    # A bound method, such as a builder's `compile`, has the attributes of what it makes.
    return not isinstance(given, MethodType) and all(
        hasattr(given, name) for name in ("input_names", "output_names", "prepare")
    )


def _made(source: Any) -> Model:
    made = source() if callable(source) else source
    if not _is_model(made):
        hint = "; use partial(ray.get, reference)" if type(made).__name__ == "ObjectRef" else ""
        raise TypeError(
            "expected a compiled model, or a function without arguments that returns one, got "
            f"{type(made).__name__}{hint}"
        )
    model: Model = made
    return model
