#include "attributes.hpp"

#include <cmath>
#include <limits>

#include <pybind11/numpy.h>

#include "arguments.hpp"
#include "errors.hpp"

namespace ogp {
namespace {

enum class attr_type { f32, f32s, s64, s64s, boolean, string };

// oneDNN numbers its attributes by type, each type in a range of its own (dnnl_graph_types.h).
attr_type type_of(dg::op::attr name) {
    const auto n = static_cast<int>(name);
    if (n >= 0x80) return attr_type::string;
    if (n >= 0x60) return attr_type::boolean;
    if (n >= 0x40) return attr_type::s64s;
    if (n >= 0x30) return attr_type::s64;
    if (n >= 0x20) return attr_type::f32s;
    return attr_type::f32;
}

const char *type_text(attr_type type) {
    switch (type) {
        case attr_type::f32:
            return "a float";
        case attr_type::f32s:
            return "a list of floats";
        case attr_type::s64:
            return "an int";
        case attr_type::s64s:
            return "a list of ints";
        case attr_type::boolean:
            return "a bool";
        case attr_type::string:
            return "a str";
    }
    return "";
}

[[noreturn]] void wrong_type(dg::op::attr name, py::handle value, const std::string &context) {
    std::string given = py::repr(value).cast<std::string>();
    if (given.size() > 80) given = given.substr(0, 77) + "...";
    throw py::type_error(context + "attribute " + enum_name(name) + " takes "
            + type_text(type_of(name)) + ", got " + given + " ("
            + py::str(py::type::of(value).attr("__name__")).cast<std::string>() + ")");
}

bool is_numpy_bool(py::handle value) {
    return std::string(Py_TYPE(value.ptr())->tp_name).rfind("numpy.bool", 0) == 0;
}

bool is_real(py::handle value) {
    return !PyBool_Check(value.ptr()) && !is_numpy_bool(value) && !PyComplex_Check(value.ptr())
            && PyNumber_Check(value.ptr()) && !PySequence_Check(value.ptr());
}

// After Python could not convert `value` to a number: a type error of ours, or the value's own.
[[noreturn]] void raise_no_number(dg::op::attr name, py::handle value, const std::string &context) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        wrong_type(name, value, context);
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        raise_invalid_arguments(context + "attribute " + enum_name(name) + ": the number is too "
                "large for " + type_text(type_of(name)));
    }
    throw py::error_already_set();
}

// A NumPy array of no dims stands for its one element.
py::object unwrap(py::handle value) {
    if (py::isinstance<py::array>(value) && value.cast<py::array>().ndim() == 0)
        return value.attr("item")();
    return py::reinterpret_borrow<py::object>(value);
}

int64_t to_s64(dg::op::attr name, py::handle given, const std::string &context) {
    const py::object value = unwrap(given);
    if (!is_integer(value) || is_numpy_bool(value)) wrong_type(name, given, context);
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!number) raise_no_number(name, given, context);
    int overflow = 0;
    const long long n = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow)
        raise_invalid_arguments(context + "attribute " + enum_name(name) + ": "
                + py::str(number).cast<std::string>() + " does not fit into 64 bits");
    return n;
}

float to_f32(dg::op::attr name, py::handle given, const std::string &context) {
    const py::object value = unwrap(given);
    if (!is_real(value)) wrong_type(name, given, context);
    const double d = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred()) raise_no_number(name, given, context);
    if (std::isfinite(d) && std::abs(d) > std::numeric_limits<float>::max())
        raise_invalid_arguments(context + "attribute " + enum_name(name) + ": " + std::to_string(d)
                + " does not fit into a 32-bit float");
    return static_cast<float>(d);
}

template <typename T, typename Convert>
std::vector<T> to_list(
        dg::op::attr name, py::handle value, const std::string &context, Convert &&convert) {
    const bool text = PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr())
            || PyByteArray_Check(value.ptr());
    if (text || !PySequence_Check(value.ptr())
            || (py::isinstance<py::array>(value) && value.cast<py::array>().ndim() != 1))
        wrong_type(name, value, context);
    const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(value.ptr(), ""));
    if (!items) throw py::error_already_set();
    std::vector<T> list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i)
        list.push_back(convert(name, PySequence_Fast_GET_ITEM(items.ptr(), i), context));
    if (list.empty())
        raise_invalid_arguments(context + "attribute " + enum_name(name)
                + " must have at least one entry, got an empty list");
    return list;
}

}  // namespace

attr_value attribute_from_python(dg::op::attr name, py::handle value, const std::string &context) {
    if (name == dg::op::attr::undef || name == dg::op::attr::end)
        raise_invalid_arguments(context + enum_name(name) + " is not an attribute that can be set");
    switch (type_of(name)) {
        case attr_type::f32:
            return to_f32(name, value, context);
        case attr_type::f32s:
            return to_list<float>(name, value, context, to_f32);
        case attr_type::s64:
            return to_s64(name, value, context);
        case attr_type::s64s:
            return to_list<int64_t>(name, value, context, to_s64);
        case attr_type::boolean: {
            const py::object b = unwrap(value);
            if (!PyBool_Check(b.ptr()) && !is_numpy_bool(b)) wrong_type(name, value, context);
            return PyObject_IsTrue(b.ptr()) == 1;
        }
        case attr_type::string: {
            if (!PyUnicode_Check(value.ptr())) wrong_type(name, value, context);
            auto text = value.cast<std::string>();
            if (text.empty() || text.find('\0') != std::string::npos)
                raise_invalid_arguments(context + "attribute " + enum_name(name)
                        + " must be a non-empty string without NUL");
            return text;
        }
    }
    wrong_type(name, value, context);
}

py::object attribute_to_python(const attr_value &value) {
    return std::visit([](const auto &v) { return py::object(py::cast(v)); }, value);
}

void set_attribute(dg::op &target, dg::op::attr name, const attr_value &value) {
    std::visit([&](const auto &v) { target.set_attr(name, v); }, value);
}

}  // namespace ogp
