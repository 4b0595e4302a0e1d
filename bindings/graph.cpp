#include "graph.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "caches.hpp"
#include "call.hpp"
#include "partition.hpp"
#include "python_hooks.hpp"
#include "refused_call.hpp"

namespace ogp {
namespace {

using fpmath_arg = enum_arg<dnnl::fpmath_mode>;

void check_ids(const graph_record &record, const op &o) {
    const auto same = record.ops.find(o.id);
    if (same != record.ops.end())
        raise_invalid_graph_op(label(o) + ": the graph already has " + label(same->second)
                + " of this id; oneDNN would ignore the new one");
    for (const auto &lt : o.outputs) {
        const auto producer = record.producers.find(lt.id());
        if (producer != record.producers.end())
            raise_invalid_graph_op(label(o) + ": logical tensor " + std::to_string(lt.id())
                    + " is already produced by " + label(record.ops.at(producer->second)));
    }
    std::set<size_t> own;
    for (const auto &lt : o.outputs)
        if (!own.insert(lt.id()).second)
            raise_invalid_graph_op(label(o) + ": logical tensor " + std::to_string(lt.id())
                    + " is given for two outputs");
}

// An op in a graph's record, taken out again unless `keep` is called. It is there before oneDNN has
// it, so that no other thread adds one of its id or for its outputs meanwhile.
class recorded_op {
public:
    recorded_op(graph_record &record, const op &o) : record_(record), id_(o.id) {
        for (const auto &lt : o.outputs) outputs_.push_back(lt.id());
        record_.ops.emplace(id_, o);
        for (const size_t lt : outputs_) record_.producers.emplace(lt, id_);
    }
    ~recorded_op() {
        if (kept_) return;
        for (const size_t lt : outputs_) record_.producers.erase(lt);
        record_.ops.erase(id_);
    }
    recorded_op(const recorded_op &) = delete;
    recorded_op &operator=(const recorded_op &) = delete;
    void keep() { kept_ = true; }

private:
    graph_record &record_;
    const size_t id_;
    std::vector<size_t> outputs_;
    bool kept_ = false;
};

dg::status add_op(graph &g, op &o, bool allow_exception, bool validate) {
    const auto add = [&] {
        check_ids(*g.record, o);
        check_op(o, validate);
        check_ids(*g.record, o);  // Python code ran since, in which other threads may add ops
        dg::op copy = o.cpp();
        recorded_op recorded(*g.record, o);
        call_onednn(
                [&] {
                    std::lock_guard<std::recursive_mutex> lock(g.record->shared->mutex);
                    return static_cast<dnnl_status_t>(g.value.add_op(copy, false));
                },
                [&]() -> failure {
                    const std::string context = "graph.add_op: " + label(o);
                    if (g.value.is_finalized()) return {context, "the graph is finalized already"};
                    return {context, fault_of(o), refused_call("add_op", o, g.engine_kind)};
                });
        recorded.keep();
        o.frozen = true;
        return dg::status::success;
    };
    if (allow_exception) return add();
    try {
        return add();
    } catch (py::error_already_set &e) {
        const py::object status = py::getattr(e.value(), "status", py::none());
        if (status.is_none()) throw;
        return status.cast<dg::status>();
    }
}

// oneDNN only says "invalid graph"; this says where.
void check_consistency(const graph_record &record) {
    std::map<size_t, std::pair<const logical_tensor *, const op *>> seen;
    for (const auto &[id, o] : record.ops) {
        for (const auto *list : {&o.inputs, &o.outputs}) {
            for (const auto &lt : *list) {
                const auto [it, fresh] = seen.try_emplace(lt.id(), &lt, &o);
                if (fresh || *it->second.first == lt) continue;
                raise_invalid_graph("graph.finalize: logical tensor " + std::to_string(lt.id())
                        + " differs between its uses: " + label(*it->second.second) + " has "
                        + repr(*it->second.first) + ", " + label(o) + " has " + repr(lt));
            }
        }
    }
    // Ops in dependency order; what is left over lies on a cycle or behind one.
    std::map<size_t, size_t> waiting;
    std::map<size_t, std::vector<size_t>> consumers;
    std::vector<size_t> ready;
    for (const auto &[id, o] : record.ops) {
        size_t producers = 0;
        for (const auto &lt : o.inputs) {
            const auto producer = record.producers.find(lt.id());
            if (producer == record.producers.end()) continue;
            ++producers;
            consumers[producer->second].push_back(id);
        }
        waiting[id] = producers;
        if (!producers) ready.push_back(id);
    }
    size_t done = 0;
    while (!ready.empty()) {
        const size_t id = ready.back();
        ready.pop_back();
        ++done;
        for (const size_t consumer : consumers[id])
            if (--waiting[consumer] == 0) ready.push_back(consumer);
    }
    if (done == record.ops.size()) return;
    for (const auto &[id, left] : waiting)
        if (left)
            raise_invalid_graph("graph.finalize: the graph has a cycle through or before "
                    + label(record.ops.at(id)));
}

void finalize(graph &g) {
    check_consistency(*g.record);
    call_onednn(
            [&] {
                std::lock_guard<std::recursive_mutex> lock(g.record->shared->mutex);
                g.value.finalize();
                return dnnl_success;
            },
            [&]() -> failure {
                return {"graph.finalize of " + std::to_string(g.record->ops.size()) + " ops", "",
                        refused_call("finalize", *g.record, g.engine_kind)};
            });
}

std::vector<partition> get_partitions(graph &g, dg::partition::policy policy) {
    if (policy == dg::partition::policy::fusion) check_partitioning(*g.record);
    std::vector<dg::partition> found;
    const kernel_destruction destruction;
    call_onednn(
            [&] {
                std::lock_guard<std::recursive_mutex> lock(g.record->shared->mutex);
                // Whichever thread makes room in the cache reads the ops of what it holds.
                if (std::exchange(g.record->shared->compiled, false))
                    empty_compiled_partition_cache();
                found = g.value.get_partitions(policy);
                return dnnl_success;
            },
            [&]() -> failure {
                if (!g.value.is_finalized())
                    return std::string("graph.get_partitions (finalize the graph first)");
                py::dict call = refused_call("get_partitions", *g.record, g.engine_kind);
                call["policy"] = enum_name(policy);
                return {"graph.get_partitions", "", call};
            });
    // The graph takes no more ops, but the Python object may live on: partitions get a snapshot.
    const auto record = std::make_shared<const graph_record>(*g.record);
    std::vector<partition> result;
    for (auto &p : found) result.push_back({p, record, nullptr});
    return result;
}

}  // namespace

std::string fault_of(const op &o) {
    try {
        check_op(o, true);
    } catch (py::error_already_set &e) {
        if (py::getattr(e.value(), "status", py::none()).is_none()) throw;
        const std::string told = py::str(e.value()), name = label(o) + ": ";
        return told.rfind(name, 0) == 0 ? told.substr(name.size()) : told;
    }
    return "";
}

void init_graph(py::module_ &m) {
    py::class_<graph, std::shared_ptr<graph>>(m, "graph",
            "Ops, connected by the ids of their logical tensors. Mirrors ``dnnl::graph::graph``\n"
            "(oneDNN page: Graph API, Basic Concepts).\n\n"
            "Parameters\n----------\n"
            "engine_kind : engine.kind or str\n"
            "mode : fpmath_mode or str, optional\n    Lower precisions that f32 ops may use.")
            .def(py::init([](enum_arg<dnnl::engine::kind> kind) {
                auto made = std::make_shared<graph>(kind.value);
                // The process-wide default, where one was set.
                made->value.get_fpmath_mode(
                        made->record->fpmath, made->record->fpmath_applies_to_int);
                return made;
            }),
                    py::arg("engine_kind"))
            .def(py::init([](enum_arg<dnnl::engine::kind> kind, fpmath_arg mode) {
                auto made = std::make_shared<graph>(kind.value, mode.value);
                made->record->fpmath = mode;
                return made;
            }),
                    py::arg("engine_kind"), py::arg("mode"))
            .def(
                    "set_fpmath_mode",
                    [](graph &self, fpmath_arg mode, bool apply_to_int) {
                        call_onednn(
                                [&] {
                                    std::lock_guard<std::recursive_mutex> lock(
                                            self.record->shared->mutex);
                                    self.value.set_fpmath_mode(mode, apply_to_int);
                                    return dnnl_success;
                                },
                                [] {
                                    return std::string("graph.set_fpmath_mode (before finalize)");
                                });
                        self.record->fpmath = mode;
                        self.record->fpmath_applies_to_int = apply_to_int;
                    },
                    py::arg("mode"), py::arg("apply_to_int") = false,
                    "Allows lower precisions in f32 ops and, if asked, in integer ones.\n\n"
                    "Raises\n------\nInvalidGraphError\n    The graph is finalized.")
            .def(
                    "get_fpmath_mode",
                    [](graph &self) {
                        return py::make_tuple(
                                self.record->fpmath, self.record->fpmath_applies_to_int);
                    },
                    "The pair (mode, apply_to_int).")
            .def("add_op", &add_op, py::arg("op"), py::arg("allow_exception") = true,
                    py::arg("validate") = false,
                    "Adds a copy of an op.\n\n"
                    "Parameters\n----------\n"
                    "op : op\n"
                    "allow_exception : bool\n    If False, a failure is returned, not raised.\n"
                    "validate : bool\n    Check it by `onednn_graph_py.ops.check` first, whose messages name the\n"
                    "    argument, what was expected and what was given.\n\n"
                    "Returns\n-------\nstatus\n\n"
                    "Raises\n------\n"
                    "InvalidGraphOpError\n"
                    "    The op breaks its schema, repeats an id or produces a tensor that has a producer.\n"
                    "InvalidShapeError\n    Its shapes don't fit together.\n"
                    "InvalidGraphError\n    The graph is finalized.")
            .def("finalize", &finalize,
                    "Ends building, without the GIL; the graph takes no more ops after it. A second call\n"
                    "does nothing.\n\n"
                    "Raises\n------\nInvalidGraphError\n"
                    "    Uses of one tensor differ, or there is a cycle.")
            .def(
                    "is_finalized", [](graph &self) { return self.value.is_finalized(); },
                    "Whether `finalize` was called.")
            .def(
                    "get_partitions",
                    [](graph &self, enum_arg<dg::partition::policy> policy) {
                        return get_partitions(self, policy);
                    },
                    defaults_to("policy", dg::partition::policy::fusion),
                    "Splits the graph, without the GIL, into what oneDNN runs as one kernel each.\n\n"
                    "Parameters\n----------\n"
                    "policy : partition.policy or str\n"
                    "    ``fusion``, or ``debug`` for one op a partition.\n\n"
                    "Returns\n-------\nlist of partition\n    Not always in dependency order.\n\n"
                    "Raises\n------\nInvalidGraphError\n    The graph is not finalized.\n"
                    "KnownDefectError\n    This oneDNN would crash while it looks for fusions.")
            .def(
                    "get_ops",
                    [](graph &self) {
                        std::vector<std::shared_ptr<op>> ops;
                        for (const auto &[id, o] : self.record->ops)
                            ops.push_back(std::make_shared<op>(o));
                        return ops;
                    },
                    "Copies of the ops that the graph took, by id.")
            .def(
                    "get_engine_kind", [](graph &self) { return self.engine_kind; },
                    "The engine kind that the graph is for.")
            .def(
                    "get",
                    [](graph &self) { return reinterpret_cast<uintptr_t>(self.value.get()); },
                    "Address of the C handle (``dnnl_graph_graph_t``), for other extensions.")
            .def("__bool__", [](graph &self) { return static_cast<bool>(self.value); })
            .def(
                    "__eq__",
                    [](const graph &self, const graph &other) { return self.value == other.value; },
                    py::is_operator())
            .def("__hash__",
                    [](const graph &self) { return std::hash<void *>()(self.value.get()); })
            .def("__repr__", [](graph &self) {
                return "graph(" + enum_name(self.engine_kind) + ", "
                        + std::to_string(self.record->ops.size()) + " ops"
                        + (self.record->fpmath == dnnl::fpmath_mode::strict
                                        ? ""
                                        : ", fpmath " + enum_name(self.record->fpmath))
                        + (self.value.is_finalized() ? ", finalized)" : ")");
            });
}

}  // namespace ogp
