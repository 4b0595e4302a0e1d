#include "arguments.hpp"

#include <limits>

#include "errors.hpp"

namespace ogp {

bool is_integer(py::handle src) {
    return src && !PyBool_Check(src.ptr()) && PyIndex_Check(src.ptr());
}

bool is_dims_like(py::handle src) {
    if (!src || PyUnicode_Check(src.ptr()) || PyBytes_Check(src.ptr())
            || PyByteArray_Check(src.ptr()))
        return false;
    return PySequence_Check(src.ptr()) != 0;
}

size_t index_from_python(py::handle src) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(src.ptr()));
    if (!number) throw py::error_already_set();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0 || value < 0)
        raise_invalid_arguments("expected an integer from 0 to 2**63 - 1, got "
                + py::str(number).cast<std::string>());
    return static_cast<size_t>(value);
}

int64_t integer_from_python(py::handle src) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(src.ptr()));
    if (!number) throw py::error_already_set();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow > 0) return std::numeric_limits<int64_t>::max();
    if (overflow < 0) return std::numeric_limits<int64_t>::min();
    return value;
}

std::vector<int64_t> dims_from_python(py::handle src) {
    const auto items = py::reinterpret_steal<py::object>(
            PySequence_Fast(src.ptr(), "expected a sequence of integers"));
    if (!items) throw py::error_already_set();
    std::vector<int64_t> values;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.ptr());
    values.reserve(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
        const py::handle item = PySequence_Fast_GET_ITEM(items.ptr(), i);
        if (item.is_none()) {
            values.push_back(DNNL_GRAPH_UNKNOWN_DIM);
            continue;
        }
        if (!is_integer(item))
            throw py::type_error("expected a sequence of integers, got "
                    + py::repr(src).cast<std::string>() + " with "
                    + py::repr(item).cast<std::string>() + " at position " + std::to_string(i));
        const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
        if (!number) throw py::error_already_set();
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
        if (overflow != 0)
            raise_invalid_arguments("integer " + py::str(number).cast<std::string>()
                    + " at position " + std::to_string(i) + " does not fit into 64 bits");
        values.push_back(value == -1 ? DNNL_GRAPH_UNKNOWN_DIM : value);
    }
    return values;
}

}  // namespace ogp
