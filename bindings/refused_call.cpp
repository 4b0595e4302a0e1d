#include "refused_call.hpp"

#include <algorithm>

#include "attributes.hpp"

namespace ogp {
namespace {

py::tuple plain_values_of(const op &o) {
    py::dict attrs;
    for (const auto &[name, value] : o.attrs)
        attrs[py::str(enum_name(name))] = attribute_to_python(value);
    return py::make_tuple(
            o.id, enum_name(o.kind), o.name, as_values(o.inputs), as_values(o.outputs), attrs);
}

}  // namespace

py::dict refused_call(
        const std::string &call, const graph_record &record, dnnl::engine::kind kind) {
    py::list ops;
    for (const auto &[id, o] : record.ops) ops.append(plain_values_of(o));
    py::dict made;
    made["call"] = call;
    made["engine_kind"] = enum_name(kind);
    made["fpmath"] = py::make_tuple(enum_name(record.fpmath), record.fpmath_applies_to_int);
    made["ops"] = ops;
    return made;
}

py::dict refused_call(const std::string &call, const op &o, dnnl::engine::kind kind) {
    graph_record record;
    record.ops.emplace(o.id, o);
    return refused_call(call, record, kind);
}

py::object as_values(const std::vector<logical_tensor> &lts) {
    const auto opaque = [](const logical_tensor &lt) { return lt.layout() == layout_type::opaque; };
    if (std::any_of(lts.begin(), lts.end(), opaque)) return py::none();
    return py::cast(lts);
}

}  // namespace ogp
