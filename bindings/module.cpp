// onednn_graph_py._core: the mirror of dnnl::graph.

#include "common.hpp"

namespace {

namespace py = pybind11;

// Without a __reduce__ of its own, an object pickled with protocol 0 or 1 is copied through
// pybind11's common base class, which ends the process.
void define_reduce(py::module_ &m) {
    const auto reduce = [](const py::object &self) {
        const py::object type = py::type::of(self);
        if (!py::hasattr(type, "__setstate__"))
            throw py::type_error("cannot pickle '" + type.attr("__name__").cast<std::string>()
                    + "' object: it has no meaning in another process");
        const py::object make = py::module_::import("copyreg").attr("__newobj__");
        return py::make_tuple(make, py::make_tuple(type), self.attr("__getstate__")());
    };
    for (const auto &[name, value] : m.attr("__dict__").cast<py::dict>()) {
        if (!PyType_Check(value.ptr())
                || !py::detail::get_type_info(reinterpret_cast<PyTypeObject *>(value.ptr())))
            continue;
        py::setattr(value, "__reduce__",
                py::cpp_function(reduce, py::name("__reduce__"), py::is_method(value)));
    }
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    m.doc() = "The mirror of oneDNN's C++ Graph API; import onednn_graph_py instead.";
    m.attr("__version__") = ONEDNN_GRAPH_PY_VERSION;

    // A class must be known before a signature or default argument names it.
    ogp::init_enums(m);
    ogp::init_errors(m);
    ogp::init_allocator(m);
    ogp::init_engine(m);
    ogp::init_stream(m);
    ogp::init_logical_tensor(m);
    ogp::init_tensor(m);
    ogp::init_op(m);
    ogp::init_compiled_partition(m);
    ogp::init_execution(m);
    ogp::init_partition(m);
    ogp::init_graph(m);
    ogp::init_caches(m);
    ogp::init_settings(m);
    ogp::init_testing(m);
    define_reduce(m);
}
