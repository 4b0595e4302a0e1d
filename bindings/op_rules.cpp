#include "op_rules.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "errors.hpp"
#include "op_ports.hpp"
#include "op_shapes.hpp"

namespace ogp {
namespace {

using attr = dg::op::attr;

// Kernels index with 32-bit integers derived from these.
constexpr int64_t max_extent = int64_t{1} << 30;

void check_list(const op &o, attr name, int64_t low, int64_t high = max_extent) {
    const auto *values = list_attr(o, name);
    if (!values) return;
    if (values->size() > DNNL_MAX_NDIMS)
        raise_invalid_graph_op(label(o) + ": attribute " + enum_name(name) + " has "
                + std::to_string(values->size()) + " entries, oneDNN takes at most "
                + std::to_string(DNNL_MAX_NDIMS));
    for (int64_t v : *values)
        if (v < low || v > high)
            raise_invalid_graph_op(label(o) + ": attribute " + enum_name(name) + " is "
                    + list_text(*values) + ", every entry must be from " + std::to_string(low)
                    + " to " + std::to_string(high));
}

// Strides that make elements share memory: for a broadcast view stride 0, by which oneDNN divides,
// or from which it concludes a wrong size.
void check_strides(const op &o, const std::string &port, const logical_tensor &lt) {
    if (lt.layout() != layout_type::strided || lt.ndims() < 1 || !lt.has_known_dims()) return;
    const dims shape = lt.shape(), strides = lt.strides();
    if (std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s < 0; })) return;
    if (std::count(shape.begin(), shape.end(), 0)) return;
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
    int64_t reach = 0;  // offset of the last element so far
    for (const size_t d : order) {
        if (shape[d] == 1) continue;
        if (strides[d] <= reach)
            raise_invalid_shape(label(o) + ": " + port
                    + " must have strides that keep its elements " + "apart, got " + repr(lt)
                    + "; pass a copy, or a smaller array that the op broadcasts");
        reach += (shape[d] - 1) * strides[d];
    }
}

void check_all_strides(const op &o, const tensors_by_id &given) {
    const auto check = [&](const std::vector<logical_tensor> &list, const char *what) {
        for (size_t i = 0; i < list.size(); ++i) {
            const auto it = given.find(list[i].id());
            check_strides(o, what + std::to_string(i), it == given.end() ? list[i] : it->second);
        }
    };
    check(o.inputs, "input ");
    check(o.outputs, "output ");
}

void merge(shapes_by_id &known, const logical_tensor &lt) {
    const known_dims given(lt);
    known_dims &present = known[lt.id()];
    if (!given.has_rank) return;
    if (!present.has_rank || present.rank() != given.rank()) {
        present = given;
        return;
    }
    for (size_t i = 0; i < given.values.size(); ++i)
        if (given.values[i] >= 0) present.values[i] = given.values[i];
}

// Checks one op and notes what shapes follow for its outputs.
void check_op(const op &o, shapes_by_id &known) {
    const ports p(o, known);
    const auto inferred = infer_outputs(o, p);
    for (size_t i = 0; i < o.outputs.size(); ++i) {
        if (i >= inferred.size()) break;
        p.out(i).need_shape(inferred[i], "as follows from its inputs and attributes");
        known_dims &now = known[o.outputs[i].id()];
        if (!inferred[i].has_rank) continue;
        if (!now.has_rank) now = inferred[i];
        for (size_t d = 0; d < now.values.size(); ++d)
            if (now.values[d] < 0) now.values[d] = inferred[i].values[d];
    }
}

}  // namespace

void check_attributes(const op &o) {
    for (attr name : {attr::strides, attr::dilations, attr::kernel}) check_list(o, name, 1);
    // Kernels are unrolled over paddings: larger ones compile for minutes.
    for (attr name : {attr::pads_begin, attr::pads_end, attr::output_padding})
        check_list(o, name, 0, int64_t{1} << 15);
    for (attr name : {attr::src_shape, attr::dst_shape, attr::weights_shape, attr::sizes})
        check_list(o, name, 0);
    check_list(o, attr::group_shape, 1);
    check_list(o, attr::shape, -1, int64_t{1} << 60);
    for (attr name : {attr::axes, attr::order})
        check_list(o, name, -DNNL_MAX_NDIMS, DNNL_MAX_NDIMS - 1);
    const std::string qtype = string_attr(o, attr::qtype, "per_tensor");
    const bool grouped = qtype == "per_group" && o.kind == dg::op::kind::DynamicDequantize;
    if (qtype != "per_tensor" && qtype != "per_channel" && !grouped)
        raise_invalid_graph_op(label(o)
                + ": attribute qtype must be per_tensor, per_channel or, in "
                + "DynamicDequantize, per_group, got '" + qtype + "'");
    if (grouped && !list_attr(o, attr::group_shape))
        raise_invalid_graph_op(label(o) + ": qtype per_group needs the attribute group_shape");
    const auto *channel = o.attr<int64_t>(attr::axis);
    if (channel && *channel < 0 && qtype != "per_tensor" && is_quantization(o.kind)
            && !o.inputs.empty() && o.inputs[0].ndims() < 0)
        raise_invalid_graph_op(label(o)
                + ": attribute axis must not be negative where the rank of input 0 is unknown, got "
                + std::to_string(*channel));
    if (const auto *groups = o.attr<int64_t>(attr::groups))
        if (*groups < 1 || *groups > max_extent)
            raise_invalid_graph_op(label(o) + ": attribute groups must be at least 1, got "
                    + std::to_string(*groups));
    for (attr name : {attr::axis, attr::begin_norm_axis}) {
        const auto *axis = o.attr<int64_t>(name);
        if (axis && (*axis < -DNNL_MAX_NDIMS || *axis >= DNNL_MAX_NDIMS))
            raise_invalid_graph_op(label(o) + ": attribute " + enum_name(name) + " must be from "
                    + std::to_string(-DNNL_MAX_NDIMS) + " to " + std::to_string(DNNL_MAX_NDIMS - 1)
                    + ", got " + std::to_string(*axis));
    }
}

void check_shapes(const op &o) { check_partition({&o}, {}); }

shapes_by_id check_partition(const std::vector<const op *> &ops, const tensors_by_id &given) {
    shapes_by_id known;
    std::set<size_t> waiting_for;  // outputs of ops not checked yet
    for (const op *o : ops) {
        check_all_strides(*o, given);
        for (const auto *list : {&o->inputs, &o->outputs})
            for (const auto &lt : *list) merge(known, lt);
        for (const auto &lt : o->outputs) waiting_for.insert(lt.id());
    }
    for (const auto &[id, lt] : given) merge(known, lt);
    // Each round takes the ops whose inputs are all settled.
    std::vector<const op *> left = ops;
    while (!left.empty()) {
        std::vector<const op *> later;
        for (const op *o : left) {
            const bool ready = std::none_of(o->inputs.begin(), o->inputs.end(),
                    [&](const auto &lt) { return waiting_for.count(lt.id()) != 0; });
            if (!ready) {
                later.push_back(o);
                continue;
            }
            check_op(*o, known);
            for (const auto &lt : o->outputs) waiting_for.erase(lt.id());
        }
        if (later.size() == left.size())
            raise_invalid_graph_op(label(*later[0]) + " depends on its own output");
        left = std::move(later);
    }
    return known;
}

}  // namespace ogp
