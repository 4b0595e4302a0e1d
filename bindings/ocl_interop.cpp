// dnnl::ocl_interop and dnnl::graph::ocl_interop, through oneDNN's C functions. OpenCL's handles
// are pointers, so that its headers are not needed here.

#include <optional>

#include "address.hpp"
#include "arguments.hpp"
#include "call.hpp"
#include "device_allocator.hpp"
#include "execution.hpp"
#include "library.hpp"

namespace ogp {
namespace {

// cl_device_id, cl_context, cl_command_queue, cl_event
using cl_handle = void *;

// oneDNN's C functions, as dnnl_ocl.h and dnnl_graph_ocl.h declare them.
struct ocl_functions {
    create_function allocator_create;
    dnnl_status_t (*make_engine)(dnnl_engine_t *, cl_handle, cl_handle);
    dnnl_status_t (*make_engine_with_allocator)(
            dnnl_engine_t *, cl_handle, cl_handle, const_dnnl_graph_allocator_t);
    dnnl_status_t (*get_device)(dnnl_engine_t, cl_handle *);
    dnnl_status_t (*get_context)(dnnl_engine_t, cl_handle *);
    dnnl_status_t (*make_stream)(dnnl_stream_t *, dnnl_engine_t, cl_handle);
    dnnl_status_t (*get_command_queue)(dnnl_stream_t, cl_handle *);
    dnnl_status_t (*execute)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, size_t,
            const_dnnl_graph_tensor_t *, size_t, const_dnnl_graph_tensor_t *, const cl_handle *,
            int, cl_handle *);
    dnnl_status_t (*execute_v2)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, size_t,
            const_dnnl_graph_tensor_t *, size_t, const_dnnl_graph_tensor_t *,
            const_dnnl_graph_tensor_t, const cl_handle *, int, cl_handle *);  // from 3.13 on
};

bool has_ocl() { return dnnl_version()->gpu_runtime == DNNL_RUNTIME_OCL; }

// The functions, or an error where the linked oneDNN's GPU runtime is not OpenCL. Some of them may
// be there even then.
const ocl_functions &ocl(const char *what) {
    static const ocl_functions functions = [] {
        ocl_functions f{};
        find(f.allocator_create, "dnnl_graph_ocl_interop_allocator_create");
        find(f.make_engine, "dnnl_ocl_interop_engine_create");
        find(f.make_engine_with_allocator, "dnnl_graph_ocl_interop_make_engine_with_allocator");
        find(f.get_device, "dnnl_ocl_interop_get_device");
        find(f.get_context, "dnnl_ocl_interop_engine_get_context");
        find(f.make_stream, "dnnl_ocl_interop_stream_create");
        find(f.get_command_queue, "dnnl_ocl_interop_stream_get_command_queue");
        find(f.execute, "dnnl_graph_ocl_interop_compiled_partition_execute");
        find(f.execute_v2, "dnnl_graph_ocl_interop_compiled_partition_execute_v2");
        return f;
    }();
    const auto &f = functions;
    if (has_ocl() && f.allocator_create && f.make_engine && f.make_engine_with_allocator
            && f.get_device && f.get_context && f.make_stream && f.get_command_queue && f.execute)
        return f;
    raise_status(dnnl_unimplemented,
            std::string(what)
                    + ": not in this build: the linked oneDNN was built without OpenCL for GPUs");
}

void require_ocl_engine(const engine &e, const char *what) {
    ocl(what);
    if (e.kind() != dnnl::engine::kind::gpu)
        raise_status(dnnl_unimplemented,
                std::string(what) + ": " + repr(e)
                        + " does not run on OpenCL, only gpu engines do");
}

// Every OpenCL object starts with a pointer to its driver's functions.
cl_handle handle_at(index_arg address, const char *what, const char *type) {
    auto *const *words = reinterpret_cast<void *const *>(address.value);
    if (!words || address % alignof(void *) != 0 || !address_range_of(words, sizeof *words).readable
            || !*words || !address_range_of(*words, sizeof(void *)).readable)
        raise_invalid_arguments(
                std::string(what) + ": " + std::to_string(address) + " is no " + type);
    return reinterpret_cast<cl_handle>(address.value);
}

engine_ptr make_ocl_engine(
        index_arg device, index_arg context, const device_allocator_ptr &allocator) {
    const char *what = allocator ? "make_engine_with_allocator" : "make_engine";
    const ocl_functions &f = ocl(what);
    const cl_handle d = handle_at(device, what, "cl_device_id");
    const cl_handle c = handle_at(context, what, "cl_context");
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
            [&] { return std::string("ocl_interop.") + what; });
    return made;
}

stream_ptr make_ocl_stream(engine_ptr e, index_arg queue) {
    e->get();
    require_ocl_engine(*e, "make_stream");
    const cl_handle q = handle_at(queue, "make_stream", "cl_command_queue");
    auto made = std::make_shared<stream>();
    made->engine_ = std::move(e);
    call_onednn(
            [&] {
                dnnl_stream_t s = nullptr;
                const auto status =
                        ocl("make_stream").make_stream(&s, made->engine_->value.get(), q);
                if (status == dnnl_success) made->value.reset(s);
                return status;
            },
            [&] { return "ocl_interop.make_stream of " + repr(*made->engine_); });
    return made;
}

template <typename Get, typename Handle>
uintptr_t ocl_address_of(Get get, Handle handle, const char *what) {
    cl_handle address = nullptr;
    const dnnl_status_t status = get(handle, &address);
    if (status != dnnl_success) raise_failure(status, std::string(what));
    return reinterpret_cast<uintptr_t>(address);
}

// Over unified shared memory, of which the host may know nothing.
std::shared_ptr<tensor> make_ocl_tensor(
        const logical_tensor &lt, engine_ptr e, index_arg address, const py::object &owner) {
    e->get();
    require_ocl_engine(*e, "make_tensor");
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->memory = std::make_shared<memory_block>();
    made->memory->bytes = required_bytes(lt);
    if (made->memory->bytes && address == 0)
        raise_invalid_arguments("make_tensor of " + repr(lt) + ": its memory must not be null");
    made->memory->owner = owner;
    made->memory->data = reinterpret_cast<void *>(address.value);
    made->memory->on_host = false;
    made->engine_ = std::move(e);
    made->value = dg::tensor(lt.cpp(), made->engine_->get(), made->memory->data);
    return made;
}

// The cl_event of the execution, which the caller has to release; 0 where oneDNN gives none.
uintptr_t ocl_execute(const compiled_partition_ptr &cp, stream &s, py::handle inputs,
        py::handle outputs, py::handle scratchpad, const std::vector<index_arg> &dependencies,
        const py::object &is_complete) {
    const ocl_functions &f = ocl("execute");
    s.get();
    require_ocl_engine(*s.engine_, "execute");
    std::vector<cl_handle> events;
    for (const index_arg one : dependencies)
        events.push_back(handle_at(one, "execute: deps", "cl_event"));
    const int count = static_cast<int>(events.size());
    cl_handle done = nullptr;
    execute_with_event(
            [&](const handle_arguments &a) {
                const cl_handle *first = count ? events.data() : nullptr;
                if (f.execute_v2)
                    return f.execute_v2(a.compiled_partition, a.stream, a.input_count, a.inputs,
                            a.output_count, a.outputs, a.scratchpad, first, count, &done);
                return f.execute(a.compiled_partition, a.stream, a.input_count, a.inputs,
                        a.output_count, a.outputs, first, count, &done);
            },
            is_complete, cp, s, inputs, outputs, scratchpad, true);
    return reinterpret_cast<uintptr_t>(done);
}

// A class, not a submodule, so that one stub file describes the extension.
struct ocl_part {};

}  // namespace

void init_ocl_interop(py::module_ &m) {
    py::class_<ocl_part>(
            m, "_ocl", "What `ocl_interop` is made of; OpenCL objects are given by their handles.")
            .def_static(
                    "require", [](const std::string &what) { ocl(what.c_str()); }, py::arg("what"),
                    "Raises `UnimplementedError`, naming `what`, where it is not available.")
            .def_static("available", &has_ocl, "Whether the linked oneDNN's GPUs run on OpenCL.")
            .def_static(
                    "make_allocator",
                    [](const py::object &malloc, const py::object &free,
                            const spare_functions &spare) {
                        return std::make_shared<device_allocator>(
                                ocl("make_allocator").allocator_create, malloc, free, spare);
                    },
                    py::arg("malloc"), py::arg("free"), py::arg("spare"),
                    "An allocator; `spare` is a pair of callables for when `malloc` fails.")
            .def_static(
                    "make_engine",
                    [](index_arg device, index_arg context,
                            const std::optional<device_allocator_ptr> &alloc) {
                        return make_ocl_engine(device, context, alloc.value_or(nullptr));
                    },
                    py::arg("device"), py::arg("context"), py::arg("alloc"),
                    "An engine of a device and a context, with an allocator or None.")
            .def_static("make_stream", &make_ocl_stream, py::arg("engine").none(false),
                    py::arg("queue"), "A stream over a queue.")
            .def_static(
                    "get_device",
                    [](const engine &e) {
                        e.get();
                        require_ocl_engine(e, "get_device");
                        return ocl_address_of(
                                ocl("get_device").get_device, e.value.get(), "get_device");
                    },
                    py::arg("engine"), "Address of the engine's device.")
            .def_static(
                    "get_context",
                    [](const engine &e) {
                        e.get();
                        require_ocl_engine(e, "get_context");
                        return ocl_address_of(
                                ocl("get_context").get_context, e.value.get(), "get_context");
                    },
                    py::arg("engine"), "Address of the engine's context.")
            .def_static(
                    "get_command_queue",
                    [](stream &s) {
                        s.get();
                        require_ocl_engine(*s.engine_, "get_command_queue");
                        return ocl_address_of(ocl("get_command_queue").get_command_queue,
                                s.value.get(), "get_command_queue");
                    },
                    py::arg("stream"), "Handle of the stream's queue.")
            .def_static("make_tensor", &make_ocl_tensor, py::arg("lt"),
                    py::arg("engine").none(false), py::arg("address"), py::arg("owner"),
                    "A tensor over USM memory at an address, which `owner` keeps alive.")
            .def_static("execute", &ocl_execute, py::arg("compiled_partition").none(false),
                    py::arg("stream").none(false), py::arg("inputs"), py::arg("outputs"),
                    py::arg("scratchpad"), py::arg("deps"), py::arg("is_complete"),
                    "Executes behind the events `deps`; returns the handle of its event, which the\n"
                    "caller releases, or 0. `is_complete()` asks it.");
}

}  // namespace ogp
