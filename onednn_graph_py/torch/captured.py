"""A graph that torch captured, and the programs that run it: `Captured`."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter, getitem, itemgetter
from typing import Any

import torch
from torch import fx

from ..base.errors import UnimplementedError
from ..machine.constant_cache import empty_constants
from . import capture, rewrites
from .arrays import Sample
from .division import divided, function_of, is_size, is_worth, operations, source, viewed
from .fallback import FallbackWarning
from .folding import folded
from .options import Options
from .region import Region

MOST_UNUSED = 3  # after so many programs in a row that ran only once, weights become inputs

MOST_OTHERS = 8  # times the bytes of weights that changed, which may be packed again with them

CAPTURED: weakref.WeakSet[Captured] = weakref.WeakSet()  # the graphs that are alive, for reports

_versions = attrgetter("_version")
_numbers = itertools.count()


class Program:
    """A graph as regions and islands, for certain weights, which calls leave out."""

    def __init__(
        self,
        graph: fx.Graph,
        weights: dict[fx.Node, torch.Tensor],
        modules: dict[str, torch.nn.Module],
        options: Options,
        threads: int,
        name: str,
    ) -> None:
        constants = self.constants = folded(graph, weights)
        self.division = divided(graph, constants, options)
        self.regions: list[Region] = []
        root = torch.nn.Module()
        for target, inner in modules.items():
            root.add_module(target, inner)
        made = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}

        def taken(node: fx.Node) -> fx.Node:
            """Return a node of the new graph; sizes and constants come when they are read."""
            if node not in env:
                if node in constants:
                    attribute = f"constant{len(env)}"
                    setattr(root, attribute, constants[node])
                    env[node] = made.get_attr(attribute)
                else:
                    env[node] = made.node_copy(node, taken)
            return env[node]

        for node in graph.nodes:
            if node.op == "placeholder" and node not in weights:
                env[node] = made.node_copy(node)
        for part in self.division.parts:
            if part.is_region:
                region = Region(
                    part.nodes, constants, options, threads, f"{name}_region{len(self.regions)}"
                )
                self.regions.append(region)
                args = tuple(taken(n) for n in (*region.inputs, *region.sizes))
                call = made.call_function(region, args)
                if len(region.outputs) == 1:
                    env[region.outputs[0]] = call
                else:
                    for i, output in enumerate(region.outputs):
                        env[output] = made.call_function(getitem, (call, i))
            else:
                for node in part.nodes:
                    env[node] = made.node_copy(node, taken)
        run = {n for r in self.regions for n in r.nodes if viewed(n) is n}
        for region in self.regions:
            region.lay_out(run)
        output = next(n for n in graph.nodes if n.op == "output")
        own: dict[fx.Node, fx.Node] = {}

        def result(node: fx.Node) -> fx.Node:
            base = viewed(node)
            if base not in constants:
                return taken(node)
            if node not in own:  # what a caller writes to its result stays there
                own[node] = (
                    made.call_function(torch.clone, (taken(node),))
                    if node is base
                    else made.node_copy(node, result)
                )
            return own[node]

        made.output(fx.map_arg(output.args[0], result))
        self.module = fx.GraphModule(root, made)
        self.run = self.module.forward
        self.taken: Callable[[list[Any]], tuple[Any, ...]] = tuple

    @property
    def constant_bytes(self) -> int:
        """The bytes of the constants of all regions."""
        return sum(r.constant_bytes for r in self.regions)

    def follows(self, written: set[fx.Node]) -> bool:
        """Compute with other numbers in the weights' memory; return False if that can't be."""
        for node, tensor in self.constants.items():
            if written.isdisjoint(node.all_input_nodes):
                continue
            given = fx.map_arg((node.args, dict(node.kwargs)), self.constants.__getitem__)
            written.add(node)
            with torch.inference_mode():
                made = node.target(*given[0], **given[1])
                if made.data_ptr() != tensor.data_ptr():
                    tensor.copy_(made)
        everything = sum(p.constant_bytes for c in list(CAPTURED) for p in c.living)
        # What oneDNN packed is dropped as a whole: others' must not be much more.
        if everything > MOST_OTHERS * self.constant_bytes:
            return False
        return all(r.follows(written) for r in self.regions) and empty_constants()


class _Entry:
    """The program of certain weights, and when it is right."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        self.program: Program
        self.sample = Sample(weights)
        self.is_for(weights)

    def is_for(self, weights: Sequence[torch.Tensor]) -> None:
        """Be right for the weights as they are, where they were."""
        self.state = _state(weights)
        self.sample.was = self.sample.now()
        self.used = False  # again, after the call that made it

    def fits(self, weights: Sequence[torch.Tensor]) -> bool:
        """Return whether the weights are as they were; memory is read if it is where it was."""
        return self.state == _state(weights) and self.sample.is_same()

    def changed(self, weights: Sequence[torch.Tensor]) -> Sequence[int]:
        """Return which weights changed; all if only the sample shows that some did."""
        before, now = zip(*self.state, strict=True), zip(*_state(weights), strict=True)
        places = [i for i, (b, n) in enumerate(zip(before, now, strict=True)) if b != n]
        return places or range(len(weights))


class Captured:
    """A graph that torch captured: what Dynamo calls.

    Constants are looked up by the identity of the weights, their versions and addresses, and a
    sample of their bytes. So other weights never run with these constants, and changed ones are
    taken anew, but for writes that torch does not count to elements outside of the sample.
    """

    _boxed_call = True

    def __init__(
        self,
        module: fx.GraphModule,
        static: Sequence[int],
        options: Options,
        names: Sequence[str] = (),
    ) -> None:
        self.number = next(_numbers)
        self.name = f"graph{self.number}"
        self.options = options
        self.names = names
        self.threads = options.threads or torch.get_num_threads()
        graph = capture.without_repetitions(module.graph)
        self.graph = rewrites.rewritten(graph, options.activations)
        self.placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        tensors = {
            i
            for i, n in enumerate(self.placeholders)
            if isinstance(n.meta.get("val"), torch.Tensor)
        }
        named = {n: attrgetter(n.target)(module) for n in self.graph.nodes if n.op == "get_attr"}
        self.attributes = {n: a for n, a in named.items() if isinstance(a, torch.Tensor)}
        self.modules = {n.target: a for n, a in named.items() if isinstance(a, torch.nn.Module)}
        self.static = tuple(i for i in static if options.freeze and i in tensors)
        self._weights = _picked(self.static)
        self.programs: dict[tuple[int, ...], _Entry] = {}
        self.weights_change = False
        self.any_shape = any(is_size(n) for n in self.placeholders)
        self.relieved = False
        self.mostly_torch = False
        self.place = function_of(self.graph)
        self._unused = 0
        self._changed: set[int] = set()
        self._lock = threading.RLock()
        self._watched: dict[int, weakref.ref[torch.Tensor]] = {}
        CAPTURED.add(self)

    def __call__(self, args: list[Any]) -> Any:
        """Run the graph; `args` are emptied, as torch wants it."""
        weights = self._weights(args)
        ids = tuple(map(id, weights))
        entry = self.programs.get(ids)
        if entry is None or not entry.fits(weights):
            program = self._program(args)
        else:
            entry.used = True
            program = entry.program
        given = program.taken(args)
        args.clear()
        return program.run(*given)

    def _program(self, args: list[Any]) -> Program:
        """Return the program for weights that are new, or have changed."""
        with self._lock:
            weights = self._weights(args)
            if any(w.is_inference() for w in weights):
                self._thaw(
                    self.static,
                    "weights were made in inference mode, where torch does not count changes",
                )
                weights = ()
            ids = tuple(map(id, weights))
            entry = self.programs.get(ids)
            if entry is not None and entry.fits(weights):
                return entry.program  # another thread made it
            if entry is not None:
                self._drop(ids, entry.changed(weights))
                if self._follows(entry, weights):
                    self.programs[ids] = entry
                    return entry.program
            if self._unused >= MOST_UNUSED:
                self._thaw(self._changed, f"weights changed before {self._unused} calls in a row")
                weights = self._weights(args)
                ids = tuple(map(id, weights))
            nodes = [self.placeholders[i] for i in self.static]
            entry = _Entry(weights)
            program = entry.program = self._made(dict(zip(nodes, weights, strict=True)))
            self.programs[ids] = entry
            self._relieve(ids)
            for i, number, weight in zip(self.static, ids, weights, strict=True):
                if number not in self._watched:
                    self._watched[number] = weakref.ref(weight, self._forget(number, i))
            return program

    def _follows(self, entry: _Entry, weights: Sequence[torch.Tensor]) -> bool:
        """Let a program compute with what was written to its weights, if it can."""
        changed = entry.changed(weights)
        few = 2 * sum(weights[i].nbytes for i in changed) < sum(w.nbytes for w in weights)
        moved = entry.state[1] != _state(weights)[1]
        if moved or (few and self._unused >= MOST_UNUSED):
            return False
        if not entry.program.follows({self.placeholders[self.static[i]] for i in changed}):
            return False
        entry.is_for(weights)
        return True

    def _relieve(self, ids: tuple[int, ...]) -> None:
        """Drop programs for one shape of these weights, once, if this graph takes all shapes.

        torch captures a graph for the first shape, and this one when another shape comes. Both
        would pack all weights; if the first shape comes back, its program is made again and stays.
        """
        if not (self.any_shape and ids):
            return
        for other in list(CAPTURED):
            fits = not other.any_shape and other.options == self.options and not other.relieved
            if fits and set(itertools.chain(*list(other.programs))) == set(ids):
                other.relieved = True
                other.programs.clear()

    def _drop(self, ids: tuple[int, ...], changed: Iterable[int]) -> None:
        """Forget a program, and count those in a row that ran only once, with what changed."""
        entry = self.programs.pop(ids, None)
        if entry is not None and entry.used:
            self._unused, self._changed = 0, set()
        elif entry is not None:
            self._unused += 1
            self._changed.update(self.static[i] for i in changed)

    def _thaw(self, inputs: Collection[int], why: str) -> None:
        """Make these weights inputs of each call, from now on."""
        named = [self.names[i] for i in sorted(inputs)] if self.names else []
        which = f" ({', '.join(named[:3])}{', ...' * (len(named) > 3)})" if named else ""
        warnings.warn(
            f"{self.name}: {why}{which}; from now on they are inputs of each call, which is slower",
            FallbackWarning,
            stacklevel=2,
        )
        self.static = tuple(i for i in self.static if i not in inputs)
        self._weights, self.weights_change = _picked(self.static), True
        self._unused, self._changed = 0, set()
        self.programs.clear()

    def _made(self, weights: dict[fx.Node, torch.Tensor]) -> Program:
        # Other tensors of the same memory, so that a weight dies as soon as its module does.
        known = {n: w.detach() for n, w in {**self.attributes, **weights}.items()}
        program = Program(self.graph, known, self.modules, self.options, self.threads, self.name)
        program.taken = _picked([i for i, n in enumerate(self.placeholders) if n not in weights])
        reasons = program.division.reasons
        if self.options.fallback == "error" and reasons:
            lines = "\n".join(f"  {n.target}: {why} ({source(n)})" for n, why in reasons.items())
            raise UnimplementedError(f"{self.name}: oneDNN does not take these calls:\n{lines}")
        _, share = arithmetic(self.graph, program)
        told = any(c.place == self.place for c in CAPTURED if c is not self and c.mostly_torch)
        # Not where only masks and positions are computed.
        self.mostly_torch = share < 0.5 and any(map(is_worth, reasons))
        if self.mostly_torch and not told:
            warnings.warn(
                f"{self.name}: only {share:.0%} of the arithmetic runs in oneDNN; "
                "onednn_graph_py.torch.report says why",
                FallbackWarning,
                stacklevel=2,
            )
        return program

    def _forget(self, number: int, i: int) -> Any:
        """Return what to do when the weight of input `i` dies: its id may be another's then."""
        this = weakref.ref(self)

        def forget(_: Any) -> None:
            captured = this()
            if captured is not None:
                captured._watched.pop(number, None)
                for ids in [p for p in list(captured.programs) if number in p]:
                    captured._drop(ids, ())
                if captured._unused:
                    captured._changed.add(i)  # others may have died before

        return forget

    @property
    def living(self) -> list[Program]:
        """The programs that exist."""
        return [e.program for e in list(self.programs.values())]


def _picked(indices: Sequence[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return what takes the items at these places out of a list."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda given: tuple(given[i] for i in indices)


def _state(weights: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Return what changes whenever a weight does."""
    return tuple(map(_versions, weights)), tuple(map(torch.Tensor.data_ptr, weights))


def arithmetic(graph: fx.Graph, program: Program) -> tuple[float, float]:
    """Return the arithmetic of one run, and which part is in oneDNN: 1 if there is none."""
    inside = {n for r in program.regions if r.failure is None for n in r.nodes}
    once = program.constants  # torch computes them when it compiles
    counted = [n for n in graph.nodes if n.op == "call_function" and n not in once]
    everything = sum(map(operations, counted))
    done = sum(operations(n) for n in counted if n in inside)
    return everything, done / everything if everything else 1.0
