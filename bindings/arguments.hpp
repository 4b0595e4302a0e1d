// Arguments that pybind11's own casters take too much or too little for.
#pragma once

#include "common.hpp"

namespace ogp {

// A non-negative integer: an id, a count. No bool, no float, no silent wrap of -1.
struct index_arg {
    size_t value = 0;
    operator size_t() const { return value; }
};

// Any integer, NumPy's too; one beyond 64 bits becomes the nearest that fits. No bool, no float.
struct integer_arg {
    int64_t value = 0;
};

// A sequence of integers: dims, strides. Lists, tuples, NumPy arrays; never strings.
// None and -1 stand for an unknown dimension.
struct dims_arg {
    std::vector<int64_t> values;
};

size_t index_from_python(py::handle src);
int64_t integer_from_python(py::handle src);
std::vector<int64_t> dims_from_python(py::handle src);
bool is_integer(py::handle src);
bool is_dims_like(py::handle src);

}  // namespace ogp

namespace pybind11::detail {

template <>
struct type_caster<ogp::index_arg> {
    PYBIND11_TYPE_CASTER(ogp::index_arg, const_name("int"));
    bool load(handle src, bool) {
        if (!ogp::is_integer(src)) return false;
        value.value = ogp::index_from_python(src);
        return true;
    }
    static handle cast(const ogp::index_arg &src, return_value_policy, handle) {
        return PyLong_FromSize_t(src.value);
    }
};

template <>
struct type_caster<ogp::integer_arg> {
    PYBIND11_TYPE_CASTER(ogp::integer_arg, const_name("int"));
    bool load(handle src, bool) {
        // NumPy's arrays offer to be an index, whatever they hold.
        if (!ogp::is_integer(src) || ogp::is_dims_like(src)) return false;
        value.value = ogp::integer_from_python(src);
        return true;
    }
    static handle cast(const ogp::integer_arg &src, return_value_policy, handle) {
        return PyLong_FromLongLong(src.value);
    }
};

template <>
struct type_caster<ogp::dims_arg> {
    PYBIND11_TYPE_CASTER(ogp::dims_arg, const_name("collections.abc.Sequence[int | None]"));
    bool load(handle src, bool) {
        if (!ogp::is_dims_like(src)) return false;
        value.values = ogp::dims_from_python(src);
        return true;
    }
    static handle cast(const ogp::dims_arg &src, return_value_policy policy, handle parent) {
        return make_caster<std::vector<int64_t>>::cast(src.values, policy, parent);
    }
};

}  // namespace pybind11::detail
