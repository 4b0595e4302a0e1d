#include "python_hooks.hpp"

namespace ogp {
namespace {

py::object safety(const char *name) {
    return py::module_::import("onednn_graph_py.safety").attr(name);
}

py::tuple dims_of(const known_dims &shape) {
    py::tuple made(shape.values.size());
    for (size_t i = 0; i < shape.values.size(); ++i) made[i] = shape.values[i];
    return made;
}

}  // namespace

void check_known_defects(const graph_record &record, const std::vector<size_t> &op_ids,
        const shapes_by_id &shapes, const tensors_by_id &given) {
    py::list ops, tensors;
    for (const size_t id : op_ids) {
        const auto it = record.ops.find(id);
        if (it != record.ops.end()) ops.append(std::make_shared<op>(it->second));
    }
    for (const auto &[id, lt] : given) tensors.append(lt);
    py::dict known;
    for (const auto &[id, shape] : shapes)
        known[py::int_(id)] = shape.has_rank ? py::object(dims_of(shape)) : py::none();
    safety("check_partition")(ops, known, tensors, enum_name(record.fpmath));
}

void check_partitioning(const graph_record &record) {
    py::list ops;
    for (const auto &[id, o] : record.ops) ops.append(std::make_shared<op>(o));
    safety("check_partitioning")(ops);
}

}  // namespace ogp
