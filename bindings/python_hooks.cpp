#include "python_hooks.hpp"

#include <algorithm>
#include <set>
#include <tuple>

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
    if (lt.ndims() >= 0) shape = tuple_of(known_dims(lt).values);
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

// -- what is cheap to tell of a partition

bool is_row_major(const logical_tensor &lt) {
    if (!has_known_strides(lt)) return true;
    int64_t expected = 1;
    for (int i = lt.ndims() - 1; i >= 0; --i) {
        if (lt.data.layout.strides[i] != expected) return false;
        expected *= lt.data.dims[i];
    }
    return true;
}

struct features {
    std::set<dg::op::kind> kinds;
    bool fused = false, strided = false, narrow = false;
    int rank = 0;
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    int threads = max_threads();

    bool operator<(const features &other) const { return tied() < other.tied(); }

    void add(const logical_tensor &lt) {
        strided = strided || !is_row_major(lt);
        narrow = narrow || lt.dtype() == data_type::bf16 || lt.dtype() == data_type::f16;
    }

private:
    std::tuple<const std::set<dg::op::kind> &, bool, bool, bool, int, int, int> tied() const {
        return {kinds, fused, strided, narrow, rank, isa, threads};
    }
};

// The defects that may be met, or None. Python answers, once for each combination.
py::object candidates_of(const features &f) {
    static auto &answers = *new std::map<features, py::object>;  // the GIL guards it
    const auto known = answers.find(f);
    if (known != answers.end()) return known->second;
    py::set kinds;
    for (const auto kind : f.kinds) kinds.add(enum_name(kind));
    py::object answer =
            safety("candidates")(kinds, f.fused, f.strided, f.narrow, f.rank, f.threads);
    answers.emplace(f, answer);
    return answer;
}

}  // namespace

void check_known_defects(const graph_record &record, const std::vector<const op *> &ops,
        const shapes_by_id &shapes, const tensors_by_id &given) {
    features f;
    f.fused = ops.size() > 1;
    f.narrow = record.fpmath != dnnl::fpmath_mode::strict;
    for (const op *o : ops) {
        f.kinds.insert(o->kind);
        for (const auto *list : {&o->inputs, &o->outputs})
            for (const auto &lt : *list) f.add(lt);
    }
    for (const auto &[id, lt] : given) f.add(lt);
    for (const auto &[id, shape] : shapes)
        f.rank = std::max(f.rank, shape.has_rank ? shape.rank() : DNNL_MAX_NDIMS);
    const py::object candidates = candidates_of(f);
    if (candidates.is_none()) return;

    py::list read, tensors;
    for (const op *o : ops) read.append(values_of(*o));
    for (const auto &[id, lt] : given) tensors.append(values_of(lt));
    py::dict known;
    for (const auto &[id, shape] : shapes)
        known[py::int_(id)] = shape.has_rank ? py::object(tuple_of(shape.values)) : py::none();
    safety("check_partition")(read, known, tensors, enum_name(record.fpmath), candidates);
}

void check_partitioning(const graph_record &record) {
    py::set kinds;
    for (const auto &[id, o] : record.ops) kinds.add(enum_name(o.kind));
    if (!safety("may_crash_search")(kinds).cast<bool>()) return;
    py::list read;
    for (const auto &[id, o] : record.ops) read.append(values_of(o));
    safety("check_partitioning")(read);
}

}  // namespace ogp
