#include "known_defects.hpp"

#include <algorithm>

#include "errors.hpp"

namespace ogp {
namespace {

using kind = dg::op::kind;
using attr = dg::op::attr;

bool is_binary(kind k) {
    return one_of(k,
            {kind::Add, kind::Divide, kind::GreaterEqual, kind::Maximum, kind::Minimum,
                    kind::Multiply, kind::SquaredDifference, kind::Subtract});
}

bool is_elementwise(kind k) {
    return one_of(k,
            {kind::Abs, kind::AbsBackward, kind::Clamp, kind::ClampBackward, kind::Elu,
                    kind::EluBackward, kind::Exp, kind::GELU, kind::GELUBackward, kind::HardSigmoid,
                    kind::HardSigmoidBackward, kind::HardSwish, kind::HardSwishBackward,
                    kind::LeakyReLU, kind::Log, kind::Mish, kind::MishBackward, kind::Pow,
                    kind::Reciprocal, kind::ReLU, kind::ReLUBackward, kind::Round, kind::Sigmoid,
                    kind::SigmoidBackward, kind::SoftPlus, kind::SoftPlusBackward, kind::Sqrt,
                    kind::SqrtBackward, kind::Square, kind::Tanh, kind::TanhBackward});
}

// The ops of one partition with what is known of their tensors.
class group {
public:
    group(const std::vector<const op *> &ops, const shapes_by_id &shapes,
            const tensors_by_id &given)
        : ops_(ops), shapes_(shapes), given_(given) {
        for (const op *o : ops)
            for (const auto &lt : o->outputs) producers_[lt.id()] = o;
    }

    const std::vector<const op *> &ops() const { return ops_; }

    const op *producer(const logical_tensor &lt) const {
        const auto it = producers_.find(lt.id());
        return it == producers_.end() ? nullptr : it->second;
    }

    const known_dims &shape(const logical_tensor &lt) const { return shapes_.at(lt.id()); }

    const logical_tensor &tensor(const logical_tensor &lt) const {
        const auto it = given_.find(lt.id());
        return it == given_.end() ? lt : it->second;
    }

    // Whether an op of a kind comes, through others of the partition, before `o`.
    bool follows(const op &o, bool (*wanted)(kind)) const {
        for (const auto &lt : o.inputs) {
            const op *before = producer(lt);
            if (before && (wanted(before->kind) || follows(*before, wanted))) return true;
        }
        return false;
    }

private:
    const std::vector<const op *> &ops_;
    const shapes_by_id &shapes_;
    const tensors_by_id &given_;
    std::map<size_t, const op *> producers_;
};

[[noreturn]] void refuse(const op &o, const std::string &what, const std::string &remedy) {
    const dnnl_version_t *v = dnnl_version();
    raise_status(dnnl_unimplemented,
            label(o) + ": " + what + " makes oneDNN " + std::to_string(v->major) + "."
                    + std::to_string(v->minor) + " access memory out of bounds; " + remedy);
}

// Layouts that row-major code walks through: strided without gaps, or oneDNN's own choice.
bool is_row_major(const logical_tensor &lt) {
    if (lt.layout() != layout_type::strided || !lt.has_known_dims()) return true;
    int64_t expected = 1;
    for (int i = lt.ndims() - 1; i >= 0; --i) {
        if (lt.data.layout.strides[i] >= 0 && lt.data.layout.strides[i] != expected) return false;
        expected *= lt.data.dims[i];
    }
    return true;
}

// Strided with room between the elements.
bool has_gaps(const logical_tensor &lt) {
    if (lt.layout() != layout_type::strided || lt.ndims() < 1 || !lt.has_known_dims()) return false;
    int64_t count = 1, reach = 1;
    for (int i = 0; i < lt.ndims(); ++i) {
        if (lt.data.dims[i] == 0) return false;
        count *= lt.data.dims[i];
        if (lt.data.dims[i] > 1) reach += (lt.data.dims[i] - 1) * lt.data.layout.strides[i];
    }
    return reach != count;
}

// The operand of a fused Add behind pooling is read as if it had the pooling's blocked layout.
// Operands of one element or one element a channel are right.
void check_binary_after_pooling(const group &g, const op &o) {
    if (!is_binary(o.kind) || !g.follows(o, is_pooling)) return;
    for (const auto &lt : o.inputs) {
        const op *before = g.producer(lt);
        if (before && (is_pooling(before->kind) || g.follows(*before, is_pooling))) continue;
        const known_dims &shape = g.shape(lt);
        int64_t wide = 0;
        for (int64_t d : shape.values) wide += d != 1;
        if (shape.has_rank && wide <= 1) continue;
        refuse(o, "an operand of shape " + shape.text() + " fused behind pooling",
                "get partitions with policy debug, or put the op into a graph of its own");
    }
}

// A fused op works in place of the one before it, whose shape it can't widen.
void check_widening(const group &g, const op &o) {
    if (!is_binary(o.kind) || o.inputs.size() != 2 || o.outputs.empty()) return;
    for (size_t i : {0, 1}) {
        if (!g.producer(o.inputs[i]) || g.producer(o.inputs[1 - i])) continue;
        const known_dims &before = g.shape(o.inputs[i]), &after = g.shape(o.outputs[0]);
        if (!before.has_rank || !after.has_rank) continue;
        int64_t count_before = 1, count_after = 1;
        for (int64_t d : before.values) count_before *= d;
        for (int64_t d : after.values) count_after *= d;
        if (count_before == count_after) continue;
        refuse(o, "widening the " + before.text() + " of the op before it to " + after.text(),
                "get partitions with policy debug, or put the op into a graph of its own");
    }
}

// The reference kernel knows five dims.
void check_elementwise_rank(const group &g, const op &o) {
    if (!is_elementwise(o.kind) || o.inputs.empty()) return;
    if (g.producer(o.inputs[0]) || g.shape(o.inputs[0]).rank() <= 5) return;
    bool dense = true;
    for (const auto *list : {&o.inputs, &o.outputs})
        for (const auto &lt : *list) dense = dense && is_row_major(g.tensor(lt));
    if (dense && g.ops().size() == 1) return;
    refuse(o,
            "rank " + std::to_string(g.shape(o.inputs[0]).rank())
                    + (dense ? " with other ops fused to it"
                             : " with strides that are not row-major"),
            dense ? "get partitions with policy debug, or use at most 5 dims"
                  : "pass row-major arrays, or use at most 5 dims");
}

known_dims batch_of(const known_dims &shape) {
    if (shape.rank() < 2) return {};
    return dims(shape.values.begin(), shape.values.end() - 2);
}

// The decomposed attention kernel walks all its operands by the batch of the first.
void check_attention_batches(const group &g, const op &o) {
    if (o.kind != kind::MatMul || o.inputs.size() < 2) return;
    const auto &ops = g.ops();
    const auto count = [&](kind k) {
        return std::count_if(
                ops.begin(), ops.end(), [&](const op *other) { return other->kind == k; });
    };
    if (count(kind::MatMul) < 2 || !count(kind::SoftMax)) return;
    const known_dims a = batch_of(g.shape(o.inputs[0])), b = batch_of(g.shape(o.inputs[1]));
    if (a.rank() != 2 || b.rank() != 2 || a.values == b.values) return;
    refuse(o, "attention with the batches " + a.text() + " and " + b.text(),
            "use equal batches, five dims for grouped queries, or policy debug");
}

// Heads of one element, whose stride says that they lie further apart than the batches.
void check_attention_strides(const group &g, const op &o) {
    if (o.kind != kind::MatMul) return;
    const auto &ops = g.ops();
    if (std::none_of(ops.begin(), ops.end(),
                [](const op *other) { return other->kind == kind::SoftMax; }))
        return;
    for (const auto &port : o.inputs) {
        const logical_tensor &lt = g.tensor(port);
        if (lt.layout() != layout_type::strided || lt.ndims() != 4 || !lt.has_known_dims())
            continue;
        const dims shape = lt.shape(), strides = lt.strides();
        if (shape[0] == 1 || shape[1] != 1 || strides[1] <= strides[0]) continue;
        refuse(o, "attention over " + repr(lt), "pass a contiguous array");
    }
}

// In 16 bits the sums are kept in a scratch buffer without the gaps, at the places with them.
void check_pooling_backward_gaps(const group &g, const op &o) {
    if (!one_of(o.kind, {kind::AvgPoolBackward, kind::MaxPoolBackward})) return;
    if (o.inputs.empty() || o.outputs.empty() || o.outputs[0].dtype() == data_type::f32) return;
    const logical_tensor &src = g.tensor(o.inputs[0]), &dst = g.tensor(o.outputs[0]);
    const bool from = o.kind == kind::MaxPoolBackward && has_gaps(src);
    const bool to = string_attr(o, attr::data_format, "NXC") == "NCX" && has_gaps(dst);
    if (!from && !to) return;
    refuse(o, "gaps between the elements of " + repr(from ? src : dst), "pass contiguous arrays");
}

[[maybe_unused]] bool has_op(const group &g, kind k) {
    return std::any_of(
            g.ops().begin(), g.ops().end(), [&](const op *other) { return other->kind == k; });
}

// Passes that fuse ops take the other operand to be another tensor.
void check_operand_twice(const group &g, const op &o) {
    if (!is_binary(o.kind) || o.inputs.size() != 2 || o.inputs[0].id() != o.inputs[1].id()) return;
    if (!g.producer(o.inputs[0])) return;
    const bool pooling =
            g.follows(o, is_pooling) && g.follows(o, [](kind k) { return k == kind::Dequantize; });
#if OGP_ONEDNN_AT_LEAST(3, 13)
    const bool attention = false;
#else
    const bool attention = has_op(g, kind::SoftMax) && has_op(g, kind::MatMul);
#endif
    if (!pooling && !attention) return;
    refuse(o, "one tensor as both inputs", "get partitions with policy debug");
}

// Outputs that lie in the padding alone, where another op is fused to them.
void check_windows_in_padding(const group &g, const op &o) {
    if (o.kind != kind::Convolution || g.ops().size() < 2 || o.inputs.size() < 2) return;
    const auto *begin = list_attr(o, attr::pads_begin), *end = list_attr(o, attr::pads_end);
    const auto *dilations = list_attr(o, attr::dilations);
    const known_dims &weights = g.shape(o.inputs[1]);
    if (!begin || !end || !dilations || weights.rank() < 3) return;
    if (string_attr(o, attr::auto_pad, "None") != "None") return;
    const bool spatial_first = string_attr(o, attr::weights_format, "XIO")[0] == 'X';
    const size_t spatial = weights.values.size() - 2;
    for (size_t i = 0; i < std::min({spatial, begin->size(), end->size(), dilations->size()});
            ++i) {
        const int64_t kernel = weights.values[i + (spatial_first ? 0 : 2)];
        if (kernel < 0) continue;
        const int64_t extent = (*dilations)[i] * (kernel - 1) + 1;
        if ((*begin)[i] < extent && (*end)[i] < extent) continue;
        refuse(o,
                "a padding as large as the window of " + std::to_string(extent)
                        + " with other ops fused to it",
                "get partitions with policy debug, or use smaller paddings");
    }
}

#if !OGP_ONEDNN_AT_LEAST(3, 13)
// Weights for the whole batch: rows are written batch times too far. Right in 3.13.
void check_shared_weights(const group &g, const op &o) {
    if (o.kind != kind::MatMul || o.inputs.size() < 2) return;
    const known_dims a = batch_of(g.shape(o.inputs[0])), b = batch_of(g.shape(o.inputs[1]));
    if (a.rank() != 2 || a.values[0] == 1 || a.values[1] != 1) return;
    const bool shared =
            std::all_of(b.values.begin(), b.values.end(), [](int64_t d) { return d == 1; });
    if (b.rank() < 1 || !shared) return;
    const auto &rows = g.shape(o.inputs[0]).values;
    if (rows[bool_attr(o, attr::transpose_a, false) ? 3 : 2] == 1) return;
    refuse(o,
            "input 0 of shape " + g.shape(o.inputs[0]).text() + " with input 1 of shape "
                    + g.shape(o.inputs[1]).text(),
            "leave out the dim of one element, or the ones before input 1's matrix");
}
#endif

// One element is looked for along the dim of stride 1.
void check_one_element_strides(const group &g, const op &o) {
    if (!is_binary(o.kind)) return;
    for (const auto *list : {&o.inputs, &o.outputs}) {
        for (const auto &port : *list) {
            const logical_tensor &lt = g.tensor(port);
            if (lt.layout() != layout_type::strided || lt.ndims() < 1 || !lt.has_known_dims())
                continue;
            const dims shape = lt.shape(), strides = lt.strides();
            if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d != 1; })
                    || std::count(strides.begin(), strides.end(), 1))
                continue;
            refuse(o, "one element with strides other than 1, " + repr(lt) + ",",
                    "make the logical tensor with strides of 1");
        }
    }
}

// The kernel takes the stride of the innermost dim for its step, which says nothing for one
// element.
void check_interpolation_of_one_column(const group &g, const op &o) {
    if (o.kind != kind::Interpolate || o.inputs.empty()) return;
    const known_dims &src = g.shape(o.inputs[0]);
    if (src.rank() < 3) return;
    const size_t innermost = src.values.size() - (channels_last(o) ? 2 : 1);
    if (src.values[innermost] != 1) return;
    refuse(o, "an innermost spatial dim of 1, in " + src.text() + ",",
            "repeat its element instead, by an op that broadcasts");
}

// MatMul is let write as if the tensor between had no strides of its own.
void check_strides_before_reshape(const group &g, const op &o) {
    if (o.kind != kind::StaticReshape || o.inputs.empty()) return;
    const op *before = g.producer(o.inputs[0]);
    if (!before || before->kind != kind::MatMul) return;
    if (is_row_major(o.inputs[0])) return;
    refuse(o, "reshaping " + repr(o.inputs[0]) + " in one partition with the op before it",
            "let that tensor be row-major, or get partitions with policy debug");
}

#if !OGP_ONEDNN_AT_LEAST(3, 13)
// The kernels take one scale, and write where the others would belong.
void check_channel_scales_after_normalization(const group &g, const op &o) {
    const auto normalizes = [](kind k) {
        return one_of(k, {kind::GroupNorm, kind::LayerNorm, kind::SoftMax});
    };
    if (o.kind != kind::Quantize || string_attr(o, attr::qtype, "per_tensor") != "per_channel"
            || !g.follows(o, normalizes))
        return;
    refuse(o, "scales per channel fused behind a normalization",
            "use qtype per_tensor, get partitions with policy debug, or put the op into a graph of "
            "its own");
}

// The attention kernel takes the condition, and what stands for masked scores, to be as large as
// the scores.
void check_attention_select(const group &g, const op &o) {
    const auto &ops = g.ops();
    const bool attention = std::any_of(
            ops.begin(), ops.end(), [](const op *other) { return other->kind == kind::SoftMax; });
    if (!attention || o.kind != kind::Select || o.inputs.size() != 3
            || !g.follows(o, [](kind k) { return k == kind::MatMul; }))
        return;
    const auto is_scores = [&](const logical_tensor &lt) {
        return g.producer(lt) && g.producer(lt)->kind != kind::GreaterEqual;
    };
    if (g.producer(o.inputs[1]) || !is_scores(o.inputs[2])) return;
    const auto &scores = g.shape(o.inputs[2]);
    for (const size_t i : {size_t(0), size_t(1)}) {
        const auto &given = g.shape(o.inputs[i]);
        if (given.has_rank && scores.has_rank && given.values == scores.values) continue;
        refuse(o,
                "attention that selects input 1 in place of scores, with input " + std::to_string(i)
                        + " of another shape than the scores,",
                "turn the condition around, so that the scores are input 1, or give inputs 0 and 1 "
                "the shape of the scores");
    }
}
#endif

#if OGP_ONEDNN_AT_LEAST(3, 8)
// What these make keeps the layout of their input, and the bytes between its elements are copied
// along, up to behind the last one. Right in 3.7, as is all below.
void check_gaps(const group &g, const op &o) {
    if (o.inputs.empty() || o.outputs.empty() || !has_gaps(g.tensor(o.inputs[0]))) return;
    const bool copies = one_of(o.kind, {kind::StaticReshape, kind::StaticTranspose})
            && g.tensor(o.outputs[0]).layout() == layout_type::any;
    if (!copies && o.kind != kind::MaxPoolBackward) return;
    refuse(o, "gaps between the elements of input 0, " + repr(g.tensor(o.inputs[0])) + ",",
            copies ? "let the output be strided, or pass a contiguous array"
                   : "pass a contiguous array");
}

// The attention kernel takes what is added to be the second input.
void check_attention_order(const group &g, const op &o) {
    const auto &ops = g.ops();
    const bool attention = std::any_of(
            ops.begin(), ops.end(), [](const op *other) { return other->kind == kind::SoftMax; });
    if (!is_binary(o.kind) || !attention || o.inputs.size() != 2 || g.producer(o.inputs[0])
            || !g.follows(o, [](kind k) { return k == kind::MatMul; }))
        return;
    refuse(o, "attention whose scores are the second input of this op",
            "make them the first input");
}

void check_binary_after_int8_deconvolution(const group &g, const op &o) {
    const auto is_deconvolution = [](kind k) { return k == kind::ConvTranspose; };
    const auto is_dequantization = [](kind k) { return k == kind::Dequantize; };
    if (!is_binary(o.kind) || !g.follows(o, is_deconvolution) || !g.follows(o, is_dequantization))
        return;
    for (const auto &lt : o.inputs) {
        if (g.producer(lt)) continue;
        const known_dims &shape = g.shape(lt);
        const auto wide = std::count_if(
                shape.values.begin(), shape.values.end(), [](int64_t d) { return d != 1; });
        if (shape.has_rank && wide <= 1) continue;
        refuse(o, "an operand of shape " + shape.text() + " fused behind int8 ConvTranspose",
                "get partitions with policy debug, or put the op into a graph of its own");
    }
}

// The kernel masks the operand by a register that it never sets.
void check_binary_after_grouped_int8_convolution(const group &g, const op &o) {
    const auto is_convolution = [](kind k) { return k == kind::Convolution; };
    const auto is_dequantization = [](kind k) { return k == kind::Dequantize; };
    if (!is_binary(o.kind) && o.kind != kind::Select) return;
    if (!g.follows(o, is_convolution) || !g.follows(o, is_dequantization)) return;
    for (const op *c : g.ops()) {
        if (c->kind != kind::Convolution || c->inputs.size() < 2) continue;
        const auto *groups = c->attr<int64_t>(attr::groups);
        if (!groups || *groups < 2) continue;
        const known_dims &w = g.shape(c->inputs[1]);
        if (w.rank() < 3) continue;
        const bool spatial_first = string_attr(*c, attr::weights_format, "XIO")[0] == 'X';
        const size_t rank = w.values.size();
        const int64_t in = w.values[spatial_first ? rank - 2 : 1];
        const int64_t out = w.values[spatial_first ? rank - 1 : 0];
        if (in != 1 || out == *groups) continue;
        for (const auto &lt : o.inputs) {
            if (g.producer(lt)) continue;
            const known_dims &shape = g.shape(lt);
            if (shape.has_rank
                    && std::all_of(shape.values.begin(), shape.values.end(),
                            [](int64_t d) { return d == 1; }))
                continue;
            refuse(o,
                    "an operand of shape " + shape.text()
                            + " fused behind int8 Convolution with one channel a group",
                    "get partitions with policy debug, or put the op into a graph of its own");
        }
    }
}

// A 16-bit scale for the whole tensor is read as a 32-bit one.
void check_dynamic_scale(const group &g, const op &o) {
    if (o.kind != kind::DynamicDequantize || o.inputs.size() < 2) return;
    const known_dims &scale = g.shape(o.inputs[1]);
    const bool one = scale.has_rank
            && std::all_of(
                    scale.values.begin(), scale.values.end(), [](int64_t d) { return d == 1; });
    if (!one && string_attr(o, attr::qtype, "per_tensor") != "per_tensor") return;
    if (o.inputs[1].dtype() == data_type::f32) return;
    for (const op *other : g.ops())
        if (other->kind == kind::MatMul) return;  // takes the scales itself
    refuse(o, "a scale of type " + enum_name(o.inputs[1].dtype()) + " for the whole tensor",
            "use an f32 scale and output and a TypeCast, or qtype per_channel");
}
#endif

}  // namespace

void check_known_defects(const std::vector<const op *> &ops, const shapes_by_id &shapes,
        const tensors_by_id &given) {
    const group g(ops, shapes, given);
    for (const op *o : ops) {
        check_binary_after_pooling(g, *o);
        check_widening(g, *o);
        check_elementwise_rank(g, *o);
        check_one_element_strides(g, *o);
        check_interpolation_of_one_column(g, *o);
        check_attention_batches(g, *o);
        check_attention_strides(g, *o);
        check_windows_in_padding(g, *o);
        check_pooling_backward_gaps(g, *o);
        check_operand_twice(g, *o);
#if !OGP_ONEDNN_AT_LEAST(3, 13)
        check_shared_weights(g, *o);
        check_attention_select(g, *o);
        check_channel_scales_after_normalization(g, *o);
#endif
        check_strides_before_reshape(g, *o);
#if OGP_ONEDNN_AT_LEAST(3, 8)
        check_gaps(g, *o);
        check_attention_order(g, *o);
        check_binary_after_int8_deconvolution(g, *o);
        check_dynamic_scale(g, *o);
        check_binary_after_grouped_int8_convolution(g, *o);
#endif
    }
}

// For a Convolution of what a Dequantize made, the matcher may ask for the op that makes the
// weights, also when there is none (3.7.2 to 3.13.2); whether it does depends on the other ops.
void check_partitioning(const graph_record &record) {
    for (const auto &[id, o] : record.ops) {
        if (o.kind != kind::Convolution || o.inputs.size() < 2) continue;
        if (record.producers.count(o.inputs[1].id())) continue;
        const auto maker = record.producers.find(o.inputs[0].id());
        if (maker == record.producers.end()) continue;
        const auto dequantize = record.ops.find(maker->second);
        if (dequantize == record.ops.end() || dequantize->second.kind != kind::Dequantize) continue;
        raise_status(dnnl_unimplemented,
                label(o) + ": a convolution of what " + label(dequantize->second)
                        + " makes, with weights that no op makes, crashes oneDNN's search for "
                          "fusions; quantize the weights too, put the two ops in two graphs, or use "
                          "policy debug");
    }
}

}  // namespace ogp
