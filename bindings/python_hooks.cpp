#include "python_hooks.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu_runtime.hpp"

namespace ogp {
namespace {

py::object safety(const char *name) {
    return py::module_::import("onednn_graph_py.safety").attr(name);
}

// -- ops and tensors as plain values, which `safety.calls` names

template <typename T>
py::tuple tuple_of(const std::vector<T> &values) {
    py::tuple made(values.size());
    for (size_t i = 0; i < values.size(); ++i) made[i] = values[i];
    return made;
}

bool has_known_strides(const logical_tensor &lt) {
    if (lt.layout() != layout_type::strided || lt.ndims() < 1 || !lt.has_known_dims()) return false;
    const auto *strides = lt.data.layout.strides;
    return std::none_of(strides, strides + lt.ndims(), [](int64_t s) { return s < 0; });
}

py::tuple values_of(const logical_tensor &lt) {
    py::object shape = py::none(), strides = py::none();
    if (lt.ndims() >= 0) {
        dims known = lt.shape();
        for (int64_t &d : known) d = std::max<int64_t>(d, -1);  // unknown, for the table of ops
        shape = tuple_of(known);
    }
    if (has_known_strides(lt)) strides = tuple_of(lt.strides());
    return py::make_tuple(
            lt.id(), enum_name(lt.dtype()), shape, enum_name(lt.layout()), strides, lt);
}

py::tuple values_of(const std::vector<logical_tensor> &lts) {
    py::tuple made(lts.size());
    for (size_t i = 0; i < lts.size(); ++i) made[i] = values_of(lts[i]);
    return made;
}

py::object value_of(const attr_value &value) {
    if (const auto *list = std::get_if<std::vector<int64_t>>(&value)) return tuple_of(*list);
    if (const auto *list = std::get_if<std::vector<float>>(&value)) return tuple_of(*list);
    return std::visit([](const auto &v) { return py::object(py::cast(v)); }, value);
}

py::tuple values_of(const op &o) {
    py::dict attrs;
    for (const auto &[name, value] : o.attrs) attrs[py::str(enum_name(name))] = value_of(value);
    return py::make_tuple(
            o.id, enum_name(o.kind), label(o), values_of(o.inputs), values_of(o.outputs), attrs);
}

}  // namespace

std::string library_spelling(const op &o, dg::op::attr name, const std::string &value) {
    return py::module_::import("onednn_graph_py.ops.check")
            .attr("library_spelling")(enum_name(o.kind), enum_name(name), value)
            .cast<std::string>();
}

void check_op(const op &o, bool validate) {
    check_key key("op");
    key.add(o);
    key.add(int64_t{validate});
    if (was_checked(key)) return;
    safety("check_op")(values_of(o), o.name, validate);
    remember_checked(key);
}

void check_partition(const graph_record &record, const std::vector<const op *> &ops,
        const std::vector<logical_tensor> &given) {
    check_key key("partition");
    for (const op *o : ops) key.add(*o);
    key.add(given);
    for (const int64_t what :
            {int64_t(record.fpmath), int64_t(dnnl_get_effective_cpu_isa()), int64_t(max_threads())})
        key.add(what);
    if (was_checked(key)) return;
    py::list read;
    for (const op *o : ops) read.append(values_of(*o));
    safety("check_partition")(read, values_of(given), enum_name(record.fpmath), max_threads());
    remember_checked(key);
}

void check_partitioning(const graph_record &record) {
    py::set kinds;
    for (const auto &[id, o] : record.ops) kinds.add(enum_name(o.kind));
    if (!safety("may_crash_search")(kinds).cast<bool>()) return;
    py::list read;
    for (const auto &[id, o] : record.ops) read.append(values_of(o));
    safety("check_partitioning")(read);
}

py::object tensor_of_usm(const logical_tensor &lt, const engine_ptr &e, py::handle data) {
    return py::module_::import("onednn_graph_py.base.sycl_interop")
            .attr("make_tensor")(lt, e, data);
}

py::module_ exception_classes() { return py::module_::import("onednn_graph_py.base.errors"); }

}  // namespace ogp
