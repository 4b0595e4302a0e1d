#include "errors.hpp"

#include <array>

#include "enums.hpp"

namespace ogp {
namespace {

// Indexed by dnnl_status_t. The references live as long as the interpreter: exceptions may be
// raised until its very end.
std::array<PyObject *, 11> exception_of_status {};

PyObject *make_exception(py::module_ &m, const char *name, const py::tuple &bases, const char *doc) {
    const std::string qualified = std::string("onednn_graph_py.") + name;
    py::dict members;
    members["status"] = py::none();
    PyObject *type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), members.ptr());
    if (!type) throw py::error_already_set();
    m.attr(name) = py::reinterpret_borrow<py::object>(type);
    return type;
}

[[noreturn]] void raise_instance(PyObject *type, dnnl_status_t status, const std::string &message) {
    py::object instance = py::reinterpret_borrow<py::object>(type)(message);
    instance.attr("status") = py::cast(static_cast<dg::status>(status));
    PyErr_SetObject(type, instance.ptr());
    throw py::error_already_set();
}

}  // namespace

std::string status_name(dnnl_status_t status) {
    return enum_name(static_cast<dg::status>(status));
}

void raise_status(dnnl_status_t status, const std::string &message) {
    const auto index = static_cast<size_t>(status);
    PyObject *type = index < exception_of_status.size() ? exception_of_status[index] : nullptr;
    if (!type) type = exception_of_status[0];
    raise_instance(type, status, message);
}

void raise_invalid_arguments(const std::string &message) {
    raise_status(dnnl_invalid_arguments, message);
}
void raise_invalid_shape(const std::string &message) { raise_status(dnnl_invalid_shape, message); }
void raise_invalid_data_type(const std::string &message) {
    raise_status(dnnl_invalid_data_type, message);
}
void raise_invalid_graph(const std::string &message) { raise_status(dnnl_invalid_graph, message); }
void raise_invalid_graph_op(const std::string &message) {
    raise_status(dnnl_invalid_graph_op, message);
}

void raise_needs_version(const std::string &member, const std::string &since) {
    const dnnl_version_t *v = dnnl_version();
    raise_status(dnnl_unimplemented,
            member + " needs oneDNN >= " + since + "; this package is linked against oneDNN "
                    + std::to_string(v->major) + "." + std::to_string(v->minor) + "."
                    + std::to_string(v->patch));
}

void init_errors(py::module_ &m) {
    const auto builtin = [](PyObject *type) { return py::reinterpret_borrow<py::object>(type); };
    const auto ours = [](PyObject *type) { return py::reinterpret_borrow<py::object>(type); };

    PyObject *base = make_exception(m, "OneDNNError", py::make_tuple(builtin(PyExc_RuntimeError)),
            "Base of every error that oneDNN or this package reports.\n\n"
            "Attributes\n----------\nstatus : status or None\n"
            "    The oneDNN status behind the error, e.g. ``status.invalid_graph``.");
    PyObject *arguments = make_exception(m, "InvalidArgumentsError",
            py::make_tuple(ours(base), builtin(PyExc_ValueError)),
            "An argument has a value that oneDNN can't take (status.invalid_arguments).");
    PyObject *shape = make_exception(m, "InvalidShapeError", py::make_tuple(ours(arguments)),
            "Shapes, strides or layouts don't fit together (status.invalid_shape).");
    PyObject *data_type = make_exception(m, "InvalidDataTypeError", py::make_tuple(ours(arguments)),
            "A data type doesn't fit what it is used for (status.invalid_data_type).");
    PyObject *graph = make_exception(m, "InvalidGraphError",
            py::make_tuple(ours(base), builtin(PyExc_ValueError)),
            "The graph as a whole is not valid (status.invalid_graph).");
    PyObject *graph_op = make_exception(m, "InvalidGraphOpError", py::make_tuple(ours(graph)),
            "One op does not meet its schema (status.invalid_graph_op).");
    PyObject *unimplemented = make_exception(m, "UnimplementedError", py::make_tuple(ours(base)),
            "oneDNN has no implementation for this on this device, or the linked version lacks the\n"
            "feature (status.unimplemented, status.last_impl_reached).");
    PyObject *memory = make_exception(m, "OutOfMemoryError",
            py::make_tuple(ours(base), builtin(PyExc_MemoryError)),
            "Memory could not be allocated (status.out_of_memory).");
    PyObject *execution = make_exception(m, "ExecutionError", py::make_tuple(ours(base)),
            "The oneDNN runtime failed while it worked (status.runtime_error).");

    exception_of_status = {base, memory, arguments, unimplemented, unimplemented, execution, base,
            graph, graph_op, shape, data_type};

    // The one translator: whatever C++ lets escape becomes the exception of its status.
    py::register_exception_translator([](std::exception_ptr p) {
        const auto set = [](dnnl_status_t status, const std::string &message) {
            try {
                raise_status(status, message);
            } catch (py::error_already_set &e) { e.restore(); }
        };
        try {
            if (p) std::rethrow_exception(p);
        } catch (const dnnl::error &e) {
            set(e.status, std::string(e.message) + " (" + status_name(e.status) + ")");
        } catch (const std::bad_alloc &) {
            set(dnnl_out_of_memory, "out of memory");
        } catch (const std::length_error &e) {
            // oneDNN sizes its containers by unchecked attribute values.
            set(dnnl_invalid_arguments, std::string("oneDNN refused a size: ") + e.what());
        }
    });
}

}  // namespace ogp
