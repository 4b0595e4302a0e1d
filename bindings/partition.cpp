#include "partition.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "caches.hpp"
#include "call.hpp"
#include "compiled_partition.hpp"
#include "cpu_runtime.hpp"
#include "python_hooks.hpp"
#include "refused_call.hpp"

namespace ogp {

const dg::partition &partition::get() const {
    if (!value) raise_invalid_arguments("partition: this partition is empty (default-constructed)");
    return value;
}

std::string label(const partition &p) {
    if (!p.value) return "partition()";
    std::string text = "partition " + std::to_string(p.value.get_id()) + " (";
    const char *separator = "";
    for (const size_t id : p.value.get_ops()) {
        const auto it = p.record->ops.find(id);
        if (it == p.record->ops.end()) continue;
        text += separator + enum_name(it->second.kind);
        if (!it->second.name.empty()) text += " '" + it->second.name + "'";
        separator = ", ";
    }
    return text + ")";
}

namespace {

// The ports' logical tensors as the graph has them. oneDNN's C++ getters hand out a class without
// access to the C struct; the record has the same tensors, and the getters say which.
const logical_tensor *graph_tensor(const partition &p, size_t id) {
    for (const size_t op_id : p.value.get_ops()) {
        const auto it = p.record->ops.find(op_id);
        if (it == p.record->ops.end()) continue;
        for (const auto *list : {&it->second.inputs, &it->second.outputs})
            for (const auto &lt : *list)
                if (lt.id() == id) return &lt;
    }
    return nullptr;
}

std::vector<logical_tensor> ports_of(const partition &p, bool inputs) {
    std::vector<logical_tensor> result;
    const auto ports = inputs ? p.get().get_input_ports() : p.get().get_output_ports();
    for (const auto &port : ports)
        if (const auto *lt = graph_tensor(p, port.get_id())) result.push_back(*lt);
    return result;
}

std::string ids_text(const std::vector<logical_tensor> &lts) {
    std::string text;
    for (size_t i = 0; i < lts.size(); ++i) text += (i ? ", " : "") + std::to_string(lts[i].id());
    return "[" + text + "]";
}

void check_port(const std::string &context, const logical_tensor &given, const logical_tensor &port,
        bool input) {
    const auto refuse = [&](const std::string &why) {
        raise_invalid_shape(context + why + ": expected " + repr(port) + ", got " + repr(given));
    };
    if (given.dtype() != port.dtype())
        raise_invalid_data_type(context + "the data type differs from the graph's: expected "
                + repr(port) + ", got " + repr(given));
    if (port.ndims() >= 0 && given.ndims() >= 0) {
        bool fits = port.ndims() == given.ndims();
        for (int i = 0; fits && i < port.ndims(); ++i)
            fits = port.data.dims[i] < 0 || given.data.dims[i] < 0
                    || port.data.dims[i] == given.data.dims[i];
        if (!fits) refuse("the shape differs from the graph's");
    }
    if (!input) return;
    if (!given.has_known_dims()) refuse("an input needs known dims");
    const auto layout = given.layout();
    const bool constant = given.property() == property_type::constant;
    if (layout != layout_type::strided && layout != layout_type::opaque
            && !(layout == layout_type::any && constant && given.ndims() > 0))
        refuse("an input needs a strided or opaque layout (any only if it is constant)");
}

// Every port once, nothing else: oneDNN reads out of bounds otherwise. A tensor that feeds two
// ports may be given once or twice.
void check_ports(const partition &p, const std::vector<logical_tensor> &given, bool input) {
    const std::string what = input ? "input" : "output";
    const auto ports = ports_of(p, input);
    const std::string context = label(p) + ": compile: ";
    std::map<size_t, size_t> times;
    for (const auto &lt : given) {
        lt.get();
        const auto port = std::find_if(ports.begin(), ports.end(),
                [&](const auto &candidate) { return candidate.id() == lt.id(); });
        if (port == ports.end())
            raise_invalid_arguments(context + what + " " + repr(lt)
                    + " is not a port; expected ids " + ids_text(ports));
        const auto repeats = static_cast<size_t>(std::count_if(ports.begin(), ports.end(),
                [&](const auto &candidate) { return candidate.id() == lt.id(); }));
        if (++times[lt.id()] > repeats)
            raise_invalid_arguments(context + what + " " + std::to_string(lt.id())
                    + " is given more often than the partition takes it; expected ids "
                    + ids_text(ports));
        check_port(context + what + " " + std::to_string(lt.id()) + ": ", lt, *port, input);
    }
    for (const auto &port : ports)
        if (!times.count(port.id()))
            raise_invalid_arguments(context + what + " " + std::to_string(port.id())
                    + " is missing; expected ids " + ids_text(ports) + ", got " + ids_text(given));
}

void check_ops(const partition &p, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs) {
    std::vector<const op *> ops;
    for (const size_t id : p.value.get_ops()) {
        const auto it = p.record->ops.find(id);
        if (it != p.record->ops.end()) ops.push_back(&it->second);
    }
    std::vector<logical_tensor> given = outputs;
    given.insert(given.end(), inputs.begin(), inputs.end());
    check_partition(*p.record, ops, given);
}

logical_tensor query(const dg::compiled_partition &cp, const logical_tensor &given) {
    dnnl_graph_logical_tensor_t c;
    const auto status =
            dnnl_graph_compiled_partition_query_logical_tensor(cp.get(), given.id(), &c);
    // For an id it does not know oneDNN answers with one that says so.
    if (status != dnnl_success || c.id != given.id()) return given;
    remember_opaque_layout(c);
    return logical_tensor(c);
}

// The stride of a dim of one element is never used, but where it is not the row-major one in a
// tensor that is row-major otherwise, oneDNN may leave results unwritten: (2, 1, 16) with strides
// (16, 32, 1), which it asks for itself behind a StaticTranspose. Other layouts stay as they are,
// because oneDNN tells them by all of their strides.
dnnl_graph_logical_tensor_t with_plain_unit_strides(const logical_tensor &lt) {
    dnnl_graph_logical_tensor_t made = lt.data;
    if (lt.layout() != layout_type::strided || !lt.has_known_dims()) return made;
    int64_t stride = 1;
    for (int i = made.ndims - 1; i >= 0; --i) {
        if (made.dims[i] != 1 && made.layout.strides[i] != stride) return lt.data;
        made.layout.strides[i] = stride;
        stride *= std::max<int64_t>(made.dims[i], 1);
    }
    return made;
}

// How many input ports of a partition's ops a tensor has.
size_t times_read(const partition &p, size_t tensor) {
    size_t count = 0;
    for (const size_t id : p.value.get_ops()) {
        const auto it = p.record->ops.find(id);
        if (it == p.record->ops.end()) continue;
        for (const auto &lt : it->second.inputs) count += lt.id() == tensor;
    }
    return count;
}

// oneDNN's cache forgets a compilation that failed, except when it threw, or when an attribute is
// NaN and the entry is not found again, being unequal to itself. What is left points to the
// partition's ops, and is read when they are gone.
struct failed_entry_remover {
    bool needed = true;
    ~failed_entry_remover() {
        if (needed) empty_compiled_partition_cache();
    }
};

size_t constant_bytes(const std::vector<logical_tensor> &inputs) {
    size_t bytes = 0;
    for (const auto &lt : inputs) {
        // The caller brings a constant of layout any in the layout that oneDNN chose.
        const bool reordered = lt.layout() != layout_type::any && lt.has_known_dims();
        if (lt.property() == property_type::constant && reordered) bytes += required_bytes(lt);
    }
    return bytes;
}

// Whether oneDNN keeps constants for a partition: reordered ones, or scales and zero points.
bool has_constants(const partition &p, const std::vector<logical_tensor> &inputs) {
    const auto is_constant = [](const logical_tensor &lt) {
        return lt.property() == property_type::constant;
    };
    if (std::any_of(inputs.begin(), inputs.end(), is_constant)) return true;
    const auto ids = p.value.get_ops();
    return std::any_of(ids.begin(), ids.end(), [&](size_t id) {
        const auto it = p.record->ops.find(id);
        return it != p.record->ops.end()
                && (it->second.kind == dg::op::kind::Quantize
                        || it->second.kind == dg::op::kind::Dequantize);
    });
}

// Whether oneDNN leaves memory for intermediate results to a primitive, and so to all calls of it:
// these ops' primitives are made without the attributes that ask for the caller's.
bool shares_memory(const partition &p) {
    using kind = dg::op::kind;
    const auto ids = p.value.get_ops();
    return std::any_of(ids.begin(), ids.end(), [&](size_t id) {
        const auto it = p.record->ops.find(id);
        if (it == p.record->ops.end()) return false;
        switch (it->second.kind) {
            case kind::ConvTransposeBackwardWeights:
                return true;
            case kind::AvgPoolBackward:
            case kind::BatchNormTrainingBackward:
            case kind::ConvolutionBackwardData:
            case kind::ConvolutionBackwardWeights:
            case kind::ConvTransposeBackwardData:
            case kind::MaxPoolBackward:
                return !OGP_ONEDNN_AT_LEAST(3, 13);
            default:
                return false;
        }
    });
}

compiled_partition_ptr compile(const partition &p, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine_ptr &e) {
    const std::string context = label(p) + ": compile: ";
    p.get();
    e->get();
    if (!p.value.is_supported())
        raise_status(dnnl_unimplemented,
                context + "oneDNN reports this partition as unsupported on "
                        + enum_name(p.value.get_engine_kind()));
    if (e->kind() != p.value.get_engine_kind())
        raise_invalid_arguments(context + "expected an engine of kind "
                + enum_name(p.value.get_engine_kind()) + ", got " + repr(*e));
    check_ports(p, inputs, true);
    check_ports(p, outputs, false);
    check_ops(p, inputs, outputs);

    auto made = std::make_shared<compiled_partition>();
    made->engine_ = e;
    made->name = label(p);
    const auto is_cached = [&] {
        const inside_onednn inside(1, [&] { return label(p) + ": compile"; });
        return caches_constants(e->kind());
    };
    if (is_cached()) {
        if (!p.constants)
            p.constants = std::make_shared<cached_constants>(e->kind(), constant_bytes(inputs));
        made->constants = p.constants;
        made->may_write_constants = has_constants(p, inputs);
    }
    made->shares_memory = e->kind() == dnnl::engine::kind::cpu && shares_memory(p);
    made->threads = std::max(1, max_threads());
    note_threads(made->threads, survives_fork(e->kind()));
    std::vector<dnnl_graph_logical_tensor_t> plain_inputs, plain_outputs;
    for (const auto &lt : inputs) plain_inputs.push_back(with_plain_unit_strides(lt));
    for (const auto &lt : outputs) plain_outputs.push_back(with_plain_unit_strides(lt));
    std::vector<const dnnl_graph_logical_tensor_t *> c_inputs, c_outputs;
    for (const auto &lt : plain_inputs) c_inputs.push_back(&lt);
    for (const auto &lt : plain_outputs) c_outputs.push_back(&lt);
    const kernel_destruction destruction;  // oneDNN's cache may make room
    call_onednn(
            [&] {
                const std::lock_guard<std::recursive_mutex> lock(p.record->shared->mutex);
                p.record->shared->compiled = true;
                // The C++ compile() leaks its handle when it throws, so ours is owned first.
                dnnl_graph_compiled_partition_t handle = nullptr;
                const auto created = dnnl_graph_compiled_partition_create(&handle, p.value.get());
                if (created != dnnl_success) return created;
                made->value = dg::compiled_partition(handle);
                failed_entry_remover remover;
                const threads_scope threads(made->threads);
                const auto status = dnnl_graph_partition_compile(p.value.get(), handle,
                        c_inputs.size(), c_inputs.data(), c_outputs.size(), c_outputs.data(),
                        e->value.get());
                remover.needed = status != dnnl_success;
                return status;
            },
            [&]() -> failure {
                py::dict call = refused_call("compile", *p.record, p.value.get_engine_kind());
                call["partition"] = p.value.get_ops();
                call["inputs"] = as_values(inputs);
                call["outputs"] = as_values(outputs);
                return {label(p) + ": compile", "", call};
            },
            made->threads);
    for (const auto &lt : inputs) made->inputs.push_back(query(made->value, lt));
    for (const auto &lt : outputs) made->outputs.push_back(query(made->value, lt));
    made->inplace_ports = made->value.get_inplace_ports();
    // oneDNN also offers inputs that a later op of the partition reads again (seen in 3.13.2).
    made->inplace_ports.erase(
            std::remove_if(made->inplace_ports.begin(), made->inplace_ports.end(),
                    [&](const auto &pair) { return times_read(p, pair.first) != 1; }),
            made->inplace_ports.end());
#if OGP_ONEDNN_AT_LEAST(3, 13)
    made->scratchpad_bytes = made->value.get_scratchpad_logical_tensor().get_mem_size();
#endif
    return made;
}

partition from_op(op &o, dnnl::engine::kind kind) {
    check_op(o);
    auto record = std::make_shared<graph_record>();
    record->ops.emplace(o.id, o);
    partition made;
    made.record = record;
    const dg::op copy = o.cpp();
    call_onednn(
            [&] {
                made.value = dg::partition(copy, kind);
                return dnnl_success;
            },
            [&]() -> failure {
                return {"partition of " + label(o), fault_of(o),
                        refused_call("partition", o, kind)};
            });
    o.frozen = true;
    return made;
}

}  // namespace

void init_partition(py::module_ &m) {
    py::class_<partition> cls(m, "partition",
            "Ops that oneDNN runs together. Mirrors ``dnnl::graph::partition`` (oneDNN page: Graph\n"
            "API, Basic Concepts).");
    define_enum<dg::partition::policy>(cls, "policy", plain_enum,
            "How a graph is split. Mirrors ``dnnl::graph::partition::policy``.");
    alias_enum<dg::partition::policy>(cls, cls.attr("policy"));

    using lts = std::vector<logical_tensor>;
    cls.def(py::init<>(), "An empty partition; using it raises `InvalidArgumentsError`.")
            .def(py::init(
                         [](op &o, enum_arg<dnnl::engine::kind> kind) { return from_op(o, kind); }),
                    py::arg("op"), py::arg("engine_kind"),
                    "A partition of one op, without a graph.\n\n"
                    "Raises\n------\nInvalidGraphOpError\n    The op breaks its schema.")
            .def(
                    "get_ops_num", [](const partition &self) { return self.get().get_ops_num(); },
                    "Number of ops.")
            .def(
                    "get_ops", [](const partition &self) { return self.get().get_ops(); },
                    "Ids of the ops.")
            .def(
                    "get_id", [](const partition &self) { return self.get().get_id(); },
                    "The id, unique in this process.")
            .def(
                    "is_supported", [](const partition &self) { return self.get().is_supported(); },
                    "Whether oneDNN can compile this partition.")
            .def(
                    "get_input_ports", [](const partition &self) { return ports_of(self, true); },
                    "Logical tensors of the inputs; one that feeds two ports comes twice.")
            .def(
                    "get_output_ports", [](const partition &self) { return ports_of(self, false); },
                    "Logical tensors of the outputs.")
            .def(
                    "get_engine_kind",
                    [](const partition &self) { return self.get().get_engine_kind(); },
                    "The engine kind that the partition is for.")
            .def(
                    "compile",
                    [](const partition &self, const lts &inputs, const lts &outputs,
                            const engine_ptr &e) { return compile(self, inputs, outputs, e); },
                    py::arg("inputs"), py::arg("outputs"), py::arg("engine").none(false),
                    "Compiles for shapes and layouts, without the GIL.\n\n"
                    "Parameters\n----------\n"
                    "inputs : list of logical_tensor\n"
                    "    Each port once, by id, in the order that `execute` will take tensors; of\n"
                    "    known dims, strided or opaque (any if constant).\n"
                    "outputs : list of logical_tensor\n"
                    "    Likewise; unknown dims are inferred, ``any`` lets oneDNN choose the layout.\n"
                    "engine : engine\n\n"
                    "Returns\n-------\ncompiled_partition\n\n"
                    "Raises\n------\n"
                    "UnimplementedError\n    The partition is unsupported, or has no implementation.\n"
                    "KnownDefectError\n    This oneDNN would crash with it, or leave its buffers.\n"
                    "InvalidArgumentsError\n    A port is missing, unknown or given too often.\n"
                    "InvalidShapeError, InvalidDataTypeError\n"
                    "    A tensor differs from the graph's, or the ops can't take it.")
            .def(
                    "get",
                    [](const partition &self) {
                        return reinterpret_cast<uintptr_t>(self.get().get());
                    },
                    "Address of the C handle (``dnnl_graph_partition_t``), for other extensions.")
            .def("__bool__", [](const partition &self) { return static_cast<bool>(self.value); })
            .def(
                    "__eq__",
                    [](const partition &self, const partition &other) {
                        return self.value == other.value;
                    },
                    py::is_operator())
            .def("__hash__",
                    [](const partition &self) { return std::hash<void *>()(self.value.get(true)); })
            .def("__repr__", [](const partition &self) {
                if (!self.value) return label(self);
                return label(self) + (self.value.is_supported() ? "" : " unsupported") + " on "
                        + enum_name(self.value.get_engine_kind());
            });
}

}  // namespace ogp
