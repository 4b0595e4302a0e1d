#include "errors.hpp"

#include <array>

#include "enums.hpp"
#include "python_hooks.hpp"

namespace ogp {
namespace {

// The classes of onednn_graph_py/base/errors.py, indexed by dnnl_status_t. The references live as
// long as the interpreter: exceptions may be raised until its very end.
std::array<PyObject *, 11> exception_of_status{};

[[noreturn]] void raise_instance(
        PyObject *type, dnnl_status_t status, const std::string &message, const py::object &call) {
    py::object instance = py::reinterpret_borrow<py::object>(type)(message);
    // A status that a newer oneDNN brought stays None.
    for (const auto &known : table_of<dg::status>().entries)
        if (static_cast<dnnl_status_t>(known.value) == status)
            instance.attr("status") = py::cast(known.value);
    if (call) {
        instance.attr("refused") = call;
        // Shown below the message from Python 3.11 on.
        if (py::hasattr(instance, "add_note"))
            instance.attr("add_note")("error.reason() asks oneDNN why, in another process");
    }
    PyErr_SetObject(type, instance.ptr());
    throw py::error_already_set();
}

}  // namespace

std::string status_name(dnnl_status_t status) { return enum_name(static_cast<dg::status>(status)); }

void raise_status(dnnl_status_t status, const std::string &message, const py::object &call) {
    const auto index = static_cast<size_t>(status);
    PyObject *type = index < exception_of_status.size() ? exception_of_status[index] : nullptr;
    if (!type) type = exception_of_status[0];
    raise_instance(type, status, message, call);
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

std::string needs_version(const std::string &member, const std::string &since) {
    const dnnl_version_t *v = dnnl_version();
    return member + " needs oneDNN >= " + since + "; this package is linked against oneDNN "
            + std::to_string(v->major) + "." + std::to_string(v->minor) + "."
            + std::to_string(v->patch);
}

void raise_needs_version(const std::string &member, const std::string &since) {
    raise_status(dnnl_unimplemented, needs_version(member, since));
}

void init_errors(py::module_ &) {
    const auto classes = exception_classes();
    const auto of = [&](const char *name) {
        return py::object(classes.attr(name)).release().ptr();
    };
    exception_of_status = {of("OneDNNError"),  // success: nothing raises it
            of("OutOfMemoryError"), of("InvalidArgumentsError"), of("UnimplementedError"),
            of("UnimplementedError"), of("ExecutionError"), of("OneDNNError"),
            of("InvalidGraphError"), of("InvalidGraphOpError"), of("InvalidShapeError"),
            of("InvalidDataTypeError")};

    // For those that Python code raises.
    for (const auto &known : table_of<dg::status>().entries) {
        const auto index = static_cast<size_t>(known.value);
        if (index == dnnl_success || index >= exception_of_status.size()) continue;
        if (index == dnnl_last_impl_reached) continue;  // shares UnimplementedError
        const py::handle type = exception_of_status[index];
        if (!type.is(classes.attr("OneDNNError"))) type.attr("status") = py::cast(known.value);
    }

    // The one translator: whatever C++ lets escape becomes the exception of its status.
    py::register_exception_translator([](std::exception_ptr p) {
        const auto set = [](dnnl_status_t status, const std::string &message) {
            try {
                raise_status(status, message);
            } catch (py::error_already_set &e) {
                e.restore();
            }
        };
        try {
            if (p) std::rethrow_exception(p);
        } catch (const dnnl::error &e) {
            set(e.status, std::string(e.message) + " (" + status_name(e.status) + ")");
        } catch (const py::cast_error &e) {
            PyErr_SetString(PyExc_TypeError, e.what());
        } catch (const std::bad_alloc &) {
            set(dnnl_out_of_memory, "out of memory");
        } catch (const std::length_error &e) {
            // oneDNN sizes its containers by unchecked attribute values.
            set(dnnl_invalid_arguments, std::string("oneDNN refused a size: ") + e.what());
        }
    });
}

}  // namespace ogp
