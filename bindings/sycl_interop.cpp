// dnnl::sycl_interop and dnnl::graph::sycl_interop, through oneDNN's C functions: those take SYCL
// objects by address, so that neither SYCL's headers nor its compiler are needed here.

#include <dlfcn.h>

#include <optional>
#include <tuple>

#include "address.hpp"
#include "arguments.hpp"
#include "call.hpp"
#include "device_allocator.hpp"
#include "execution.hpp"
#include "library.hpp"

namespace ogp {
namespace {

// oneDNN's C functions, as dnnl_sycl.h and dnnl_graph_sycl.h declare them.
struct sycl_functions {
    create_function allocator_create;
    dnnl_status_t (*make_engine)(dnnl_engine_t *, const void *, const void *);
    dnnl_status_t (*make_engine_with_allocator)(
            dnnl_engine_t *, const void *, const void *, const_dnnl_graph_allocator_t);
    dnnl_status_t (*get_device)(dnnl_engine_t, void **);
    dnnl_status_t (*get_context)(dnnl_engine_t, void **);
    dnnl_status_t (*make_stream)(dnnl_stream_t *, dnnl_engine_t, void *);
    dnnl_status_t (*get_queue)(dnnl_stream_t, void **);
    dnnl_status_t (*execute)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, size_t,
            const_dnnl_graph_tensor_t *, size_t, const_dnnl_graph_tensor_t *, const void *, void *);
    dnnl_status_t (*execute_v2)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, size_t,
            const_dnnl_graph_tensor_t *, size_t, const_dnnl_graph_tensor_t *,
            const_dnnl_graph_tensor_t, const void *, void *);  // from 3.13 on
};

// The functions, or an error where the linked oneDNN was built without SYCL. Some of them are there
// even then, and answer "unimplemented".
const sycl_functions &sycl(const char *what) {
    static const sycl_functions functions = [] {
        sycl_functions f{};
        find(f.allocator_create, "dnnl_graph_sycl_interop_allocator_create");
        find(f.make_engine, "dnnl_sycl_interop_engine_create");
        find(f.make_engine_with_allocator, "dnnl_graph_sycl_interop_make_engine_with_allocator");
        find(f.get_device, "dnnl_sycl_interop_engine_get_device");
        find(f.get_context, "dnnl_sycl_interop_engine_get_context");
        find(f.make_stream, "dnnl_sycl_interop_stream_create");
        find(f.get_queue, "dnnl_sycl_interop_stream_get_queue");
        find(f.execute, "dnnl_graph_sycl_interop_compiled_partition_execute");
        find(f.execute_v2, "dnnl_graph_sycl_interop_compiled_partition_execute_v2");
        return f;
    }();
    const auto &f = functions;
    if (runs_on_sycl() && f.allocator_create && f.make_engine && f.make_engine_with_allocator
            && f.get_device && f.get_context && f.make_stream && f.get_queue && f.execute) {
        const inside_onednn inside(1, [&] { return std::string(what); });
        return f;
    }
    raise_status(dnnl_unimplemented,
            std::string(what) + ": not in this build: the linked oneDNN was built without SYCL");
}

// An engine that oneDNN asks about SYCL must have that runtime itself.
void require_sycl_engine(const engine &e, const char *what) {
    sycl(what);
    const dnnl_version_t *v = dnnl_version();
    const bool cpu = e.kind() == dnnl::engine::kind::cpu;
    if ((cpu ? v->cpu_runtime : v->gpu_runtime) != DNNL_RUNTIME_SYCL)
        raise_status(dnnl_unimplemented,
                std::string(what) + ": not in this build: " + repr(e) + " does not run on SYCL");
}

// sycl::context, queue and event are each one shared pointer to an object of the runtime.
using shared_object = std::shared_ptr<void>;

bool in_sycl_runtime(const void *address) {
    static const std::string runtime = sycl_runtime_of(library_file());
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname && runtime == info.dli_fname;
}

// Whether an address holds such a pointer. Its second word points to the block that counts the
// owners, whose class libsycl defines: no other memory looks like that.
bool is_shared_object(uintptr_t address) {
    const auto readable = [](const void *p, size_t n) {
        return p && reinterpret_cast<uintptr_t>(p) % alignof(void *) == 0
                && address_range_of(p, n).readable;
    };
    const auto *words = reinterpret_cast<const void *const *>(address);
    if (!readable(words, sizeof(shared_object)) || !readable(words[0], sizeof(void *)))
        return false;
    const auto *counts = static_cast<const void *const *>(words[1]);
    return readable(counts, 2 * sizeof(void *)) && in_sycl_runtime(counts[0]);
}

void *shared_object_at(index_arg address, const char *what, const char *type) {
    if (!is_shared_object(address))
        raise_invalid_arguments(std::string(what) + ": there is no sycl::" + type + " at address "
                + std::to_string(address) + " that belongs to oneDNN's SYCL runtime, "
                + sycl_runtime_of(library_file()));
    return reinterpret_cast<void *>(address.value);
}

// A sycl::device is a bare pointer into the runtime, which keeps all devices.
const void *device_at(index_arg address, const char *what) {
    const auto *device = reinterpret_cast<const void *const *>(address.value);
    if (!device || address % alignof(void *) != 0
            || !address_range_of(device, sizeof *device).readable || !*device
            || !address_range_of(*device, sizeof(void *)).readable)
        raise_invalid_arguments(std::string(what) + ": there is no sycl::device at address "
                + std::to_string(address));
    return device;
}

engine_ptr make_sycl_engine(
        index_arg device, index_arg context, const device_allocator_ptr &allocator) {
    const char *what = allocator ? "make_engine_with_allocator" : "make_engine";
    const sycl_functions &f = sycl(what);
    const void *d = device_at(device, what);
    const void *c = shared_object_at(context, what, "context");
    const engine_ptr made = engine_that_keeps(allocator);
    call_onednn(
            [&] {
                dnnl_engine_t e = nullptr;
                const auto status = allocator
                        ? f.make_engine_with_allocator(&e, d, c, allocator->value)
                        : f.make_engine(&e, d, c);
                if (status == dnnl_success) made->value.reset(e);
                return status;
            },
            [&] { return std::string("sycl_interop.") + what; });
    return made;
}

stream_ptr make_sycl_stream(engine_ptr e, index_arg queue) {
    e->get();
    require_sycl_engine(*e, "make_stream");
    void *q = shared_object_at(queue, "make_stream", "queue");
    auto made = std::make_shared<stream>();
    made->engine_ = std::move(e);
    call_onednn(
            [&] {
                dnnl_stream_t s = nullptr;
                const auto status =
                        sycl("make_stream").make_stream(&s, made->engine_->value.get(), q);
                if (status == dnnl_success) made->value.reset(s);
                return status;
            },
            [&] {
                return "sycl_interop.make_stream of " + repr(*made->engine_)
                        + " (the queue must be of the engine's device and context)";
            });
    return made;
}

template <typename Get, typename Handle>
uintptr_t sycl_address_of(Get get, Handle handle, const char *what) {
    void *address = nullptr;
    const dnnl_status_t status = get(handle, &address);
    if (status != dnnl_success) raise_failure(status, std::string(what));
    return reinterpret_cast<uintptr_t>(address);
}

// `describe(address)` returns usm_facts, or raises where the engine can't reach the memory.
std::shared_ptr<tensor> make_sycl_tensor(
        const logical_tensor &lt, engine_ptr e, py::handle source, const py::function &describe) {
    e->get();
    require_sycl_engine(*e, "make_tensor");
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->memory = memory_from_python(source, lt, true);
    const auto [kind, sycl_object, device_id] =
            describe(reinterpret_cast<uintptr_t>(made->memory->data))
                    .cast<std::tuple<std::string, py::object, int>>();
    made->memory->usm = {kind, sycl_object, device_id};
    made->memory->on_host = kind != "device";
    made->memory->is_an_array = false;
    made->memory->is_usm_of_caller = true;
    made->engine_ = std::move(e);
    made->value = dg::tensor(lt.cpp(), made->engine_->get(), made->memory->data);
    return made;
}

std::shared_ptr<tensor> tensor_as(const tensor &t, const logical_tensor &lt, engine_ptr e) {
    t.require();
    e->get();
    if (required_bytes(lt) > t.memory->bytes)
        raise_invalid_shape("tensor_as: " + repr(lt) + " needs "
                + std::to_string(required_bytes(lt)) + " bytes, " + repr(t) + " has "
                + std::to_string(t.memory->bytes));
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->memory = t.memory;
    made->engine_ = std::move(e);
    made->value = dg::tensor(lt.cpp(), made->engine_->get(), made->memory->data);
    return made;
}

// `dependencies` and `event` are addresses of sycl::event; `event` is written.
void sycl_execute(const compiled_partition_ptr &cp, stream &s, py::handle inputs,
        py::handle outputs, py::handle scratchpad, const std::vector<index_arg> &dependencies,
        index_arg event, const py::object &is_complete, bool wait) {
    const sycl_functions &f = sycl("execute");
    if (!cp) throw py::type_error("execute: compiled_partition must not be None");
    s.get();
    require_sycl_engine(*s.engine_, "execute");
    // Laid out as std::vector<sycl::event>, which is what oneDNN reads.
    std::vector<shared_object> events;
    for (const index_arg one : dependencies)
        events.push_back(
                *static_cast<shared_object *>(shared_object_at(one, "execute: deps", "event")));
    void *done = shared_object_at(event, "execute", "event");
    execute_with_event(
            [&](const handle_arguments &a) {
                if (f.execute_v2)
                    return f.execute_v2(a.compiled_partition, a.stream, a.input_count, a.inputs,
                            a.output_count, a.outputs, a.scratchpad, &events, done);
                return f.execute(a.compiled_partition, a.stream, a.input_count, a.inputs,
                        a.output_count, a.outputs, &events, done);
            },
            is_complete, cp, s, inputs, outputs, scratchpad, wait);
}

// A class, not a submodule, so that one stub file describes the extension.
struct sycl_part {};

}  // namespace

void init_sycl_interop(py::module_ &m) {
    py::class_<sycl_part>(m, "_sycl",
            "What `sycl_interop` is made of; SYCL objects are given by their addresses.")
            .def_static(
                    "require", [](const std::string &what) { sycl(what.c_str()); }, py::arg("what"),
                    "Raises `UnimplementedError`, naming `what`, where it is not available.")
            .def_static("available", &runs_on_sycl, "Whether the linked oneDNN runs on SYCL.")
            .def_static(
                    "runtime", [] { return sycl_runtime_of(library_file()); },
                    "The file of the SYCL runtime that oneDNN uses; empty without one.")
            .def_static("runtime_of", &sycl_runtime_of, py::arg("library"),
                    "The file of the SYCL runtime that a loaded library uses; empty without one.")
            .def_static(
                    "make_allocator",
                    [](const py::object &malloc, const py::object &free,
                            const spare_functions &spare) {
                        return std::make_shared<device_allocator>(
                                sycl("make_allocator").allocator_create, malloc, free, spare);
                    },
                    py::arg("malloc"), py::arg("free"), py::arg("spare"),
                    "An allocator; `spare` is a pair of callables for when `malloc` fails.")
            .def_static(
                    "make_engine",
                    [](index_arg device, index_arg context,
                            const std::optional<device_allocator_ptr> &alloc) {
                        return make_sycl_engine(device, context, alloc.value_or(nullptr));
                    },
                    py::arg("device"), py::arg("context"), py::arg("alloc"),
                    "An engine of a device and a context, with an allocator or None.")
            .def_static("make_stream", &make_sycl_stream, py::arg("engine").none(false),
                    py::arg("queue"), "A stream over a queue.")
            .def_static(
                    "get_device",
                    [](const engine &e) {
                        e.get();
                        require_sycl_engine(e, "get_device");
                        return sycl_address_of(
                                sycl("get_device").get_device, e.value.get(), "get_device");
                    },
                    py::arg("engine"), "Address of the engine's device.")
            .def_static(
                    "get_context",
                    [](const engine &e) {
                        e.get();
                        require_sycl_engine(e, "get_context");
                        return sycl_address_of(
                                sycl("get_context").get_context, e.value.get(), "get_context");
                    },
                    py::arg("engine"), "Address of the engine's context.")
            .def_static(
                    "get_queue",
                    [](stream &s) {
                        s.get();
                        require_sycl_engine(*s.engine_, "get_queue");
                        return sycl_address_of(
                                sycl("get_queue").get_queue, s.value.get(), "get_queue");
                    },
                    py::arg("stream"), "Address of the stream's queue.")
            .def_static("make_tensor", &make_sycl_tensor, py::arg("lt"),
                    py::arg("engine").none(false), py::arg("source"), py::arg("describe"),
                    "A tensor over an array of USM memory. `describe(address)` returns its kind,\n"
                    "the SYCL object that allocated it, and DLPack's number of the device or -1.")
            .def_static("tensor_as", &tensor_as, py::arg("tensor").none(false), py::arg("lt"),
                    py::arg("engine").none(false),
                    "Another tensor over a tensor's memory, which must be large enough.")
            .def_static(
                    "wait_for_writer",
                    [](const tensor &t) {
                        t.require();
                        wait_for_writer(*t.memory);
                    },
                    py::arg("tensor").none(false),
                    "Waits for the execution that writes a tensor's memory.")
            .def_static(
                    "usm_kind",
                    [](const tensor &t) {
                        t.require();
                        return t.memory->usm.kind;
                    },
                    py::arg("tensor").none(false),
                    "shared, host or device; empty for other memory.")
            .def_static(
                    "is_shown",
                    [](const tensor &t) {
                        t.require();
                        return t.memory->is_shown();
                    },
                    py::arg("tensor").none(false),
                    "Whether somebody can read its memory without asking the tensor.")
            .def_static("execute", &sycl_execute, py::arg("compiled_partition").none(false),
                    py::arg("stream").none(false), py::arg("inputs"), py::arg("outputs"),
                    py::arg("scratchpad"), py::arg("deps"), py::arg("event"),
                    py::arg("is_complete"), py::arg("wait"),
                    "Executes behind the events `deps` and writes `event`; `is_complete()` asks it.")
            .def_static(
                    "let_go", [](stream &s) { s.let_go_finished(); }, py::arg("stream").none(false),
                    "Releases what finished executions of a stream used.")
            .def_static(
                    "kept", [](const stream &s) { return s.kept(); }, py::arg("stream"),
                    "How many blocks of memory and compiled partitions a stream keeps alive.");
}

}  // namespace ogp
