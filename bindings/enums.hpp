// oneDNN's enumerations, each listed once; names are taken wherever an argument takes a value.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "common.hpp"
#include "errors.hpp"

namespace ogp {

template <typename E>
struct enum_entry {
    const char *name;
    E value;
};

// A name that a newer oneDNN brings, so that its absence can be explained.
struct newer_name {
    const char *name;
    const char *since;
};

template <typename E>
struct enum_table {
    const char *what;  // "data type", for messages
    std::vector<enum_entry<E>> entries;
    std::vector<newer_name> newer;
};

template <typename E>
const enum_table<E> &table_of();

// Declared here, defined beside the tables in enums.cpp.
template <>
const enum_table<dg::status> &table_of();
template <>
const enum_table<dnnl::engine::kind> &table_of();
template <>
const enum_table<dnnl::stream::flags> &table_of();
template <>
const enum_table<dg::logical_tensor::data_type> &table_of();
template <>
const enum_table<dg::logical_tensor::layout_type> &table_of();
template <>
const enum_table<dg::logical_tensor::property_type> &table_of();
template <>
const enum_table<dg::op::kind> &table_of();
template <>
const enum_table<dg::op::attr> &table_of();
template <>
const enum_table<dg::partition::policy> &table_of();
template <>
const enum_table<dnnl::fpmath_mode> &table_of();
template <>
const enum_table<dnnl::accumulation_mode> &table_of();
template <>
const enum_table<dnnl::cpu_isa> &table_of();
template <>
const enum_table<dnnl::cpu_isa_hints> &table_of();
#if OGP_ONEDNN_AT_LEAST(3, 11)
template <>
const enum_table<dg::graph_dump_mode> &table_of();
#endif

template <typename E>
std::string enum_name(E value) {
    for (const auto &entry : table_of<E>().entries)
        if (entry.value == value) return entry.name;
    return "unknown(" + std::to_string(static_cast<long long>(value)) + ")";
}

// The nearest known name, for "did you mean"; empty when nothing is near.
std::string nearest_name(const std::string &given, const std::vector<std::string> &names);

template <typename E>
E enum_from_name(const std::string &name) {
    const auto &table = table_of<E>();
    for (const auto &entry : table.entries)
        if (name == entry.name) return entry.value;
    for (const auto &newer : table.newer)
        if (name == newer.name)
            raise_needs_version(std::string(table.what) + " '" + name + "'", newer.since);
    std::vector<std::string> names;
    for (const auto &entry : table.entries) names.emplace_back(entry.name);
    const std::string near = nearest_name(name, names);
    const bool vowel = std::string("aeiou").find(table.what[0]) != std::string::npos;
    std::string message = "'" + name + "' is not " + (vowel ? "an " : "a ") + table.what;
    if (!near.empty()) {
        message += "; did you mean '" + near + "'?";
    } else {
        message += "; expected one of";
        for (size_t i = 0; i < names.size(); ++i) message += (i ? ", " : " ") + names[i];
    }
    raise_invalid_arguments(message);
}

// An argument that takes an enumerator or its name as a string.
template <typename E>
struct enum_arg {
    E value{};
    operator E() const { return value; }
};

// The Python classes that enumerations derive from; onednn_graph_py/base/_enums.py.
constexpr auto plain_enum = "onednn_graph_py.base._enums.NamedEnum";
constexpr auto open_enum = "onednn_graph_py.base._enums.OpenEnum";
constexpr auto flag_enum = "onednn_graph_py.base._enums.NamedFlag";

// Makes `scope.name` a Python enum of the table's entries.
template <typename E>
void define_enum(py::handle scope, const char *name, const char *base, const char *doc);

// Also reaches every enumerator from its class: op.MatMul, logical_tensor.f32. Where two enums of
// a class share a name (undef), `undef_alias` is used for it.
template <typename E>
void alias_enum(py::handle scope, py::handle enumeration, const char *undef_alias = nullptr) {
    for (const auto &entry : table_of<E>().entries) {
        const bool undef = std::string(entry.name) == "undef";
        if (undef && !undef_alias) continue;
        py::setattr(scope, undef ? undef_alias : entry.name, enumeration.attr(entry.name));
    }
}

// A default value, shown in signatures as the name that one would pass.
template <typename E>
py::arg_v defaults_to(const char *argument, E value) {
    static std::list<std::string> texts;  // pybind11 keeps the pointer until the def is done
    return py::arg_v(
            argument, py::cast(value), texts.emplace_back("'" + enum_name(value) + "'").c_str());
}

}  // namespace ogp

#include <pybind11/native_enum.h>

namespace ogp {

template <typename E>
void define_enum(py::handle scope, const char *name, const char *base, const char *doc) {
    py::native_enum<E> enumeration(scope, name, base, doc);
    const auto &table = table_of<E>();
    for (const auto &entry : table.entries) enumeration.value(entry.name, entry.value);
    enumeration.finalize();
    py::dict newer;
    for (const auto &n : table.newer)
        newer[n.name] = needs_version(std::string(table.what) + " '" + n.name + "'", n.since);
    if (newer.size()) py::setattr(scope.attr(name), "_newer_", newer);
}

}  // namespace ogp

namespace pybind11::detail {

template <typename E>
struct type_caster<ogp::enum_arg<E>> {
    PYBIND11_TYPE_CASTER(ogp::enum_arg<E>, make_caster<E>::name + const_name(" | str"));

    bool load(handle src, bool) {
        make_caster<E> enumerator;
        if (enumerator.load(src, false)) {
            value.value = cast_op<E>(enumerator);
            return true;
        }
        if (!PyUnicode_Check(src.ptr())) return false;
        value.value = ogp::enum_from_name<E>(src.cast<std::string>());
        return true;
    }

    static handle cast(const ogp::enum_arg<E> &src, return_value_policy policy, handle parent) {
        return make_caster<E>::cast(src.value, policy, parent);
    }
};

}  // namespace pybind11::detail
