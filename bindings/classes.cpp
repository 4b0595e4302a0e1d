// What every class gets, so that it is safe to hold wrongly in the ways that pybind11 leaves open.

#include "common.hpp"

namespace ogp {
namespace {

// pybind11 gives an object that is used without __init__ raw memory to stand on; this is where it
// asks a class for that memory, and nowhere else.
void *refuse_uninitialised(size_t) {
    throw py::type_error("the object was made without __init__ and can't be used");
}

py::tuple reduce(const py::object &self) {
    const py::object type = py::type::of(self);
    if (!py::hasattr(type, "__setstate__"))
        throw py::type_error("cannot pickle '" + type.attr("__name__").cast<std::string>()
                + "' object: it has no meaning in another process");
    const py::object make = py::module_::import("copyreg").attr("__newobj__");
    return py::make_tuple(make, py::make_tuple(type), self.attr("__getstate__")());
}

// As in C++, a copy is another handle of the same object.
py::object copy(const py::object &self) { return self; }

}  // namespace

void init_classes(py::module_ &m) {
    for (const auto &[name, value] : m.attr("__dict__").cast<py::dict>()) {
        if (!PyType_Check(value.ptr())) continue;
        auto *info = py::detail::get_type_info(reinterpret_cast<PyTypeObject *>(value.ptr()));
        if (!info) continue;
        info->operator_new = refuse_uninitialised;
        // Without a __reduce__ of its own, an object pickled with protocol 0 or 1 is copied
        // through pybind11's common base class, which ends the process.
        py::setattr(value, "__reduce__",
                py::cpp_function(&reduce, py::name("__reduce__"), py::is_method(value)));
        if (!py::hasattr(value, "__setstate__"))
            py::setattr(value, "__copy__",
                    py::cpp_function(&copy, py::name("__copy__"), py::is_method(value)));
    }
}

}  // namespace ogp
