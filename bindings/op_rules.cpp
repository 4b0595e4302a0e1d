#include "op_rules.hpp"

#include <algorithm>
#include <functional>

#include "errors.hpp"

namespace ogp {
namespace {

using kind = dg::op::kind;
using attr = dg::op::attr;

bool one_of(kind k, std::initializer_list<kind> kinds) {
    return std::find(kinds.begin(), kinds.end(), k) != kinds.end();
}

bool is_convolution(kind k) {
    return one_of(k,
            {kind::Convolution, kind::ConvolutionBackwardData, kind::ConvolutionBackwardWeights,
                    kind::ConvTranspose, kind::ConvTransposeBackwardData,
                    kind::ConvTransposeBackwardWeights});
}

bool is_pooling(kind k) {
    return one_of(k, {kind::AvgPool, kind::AvgPoolBackward, kind::MaxPool, kind::MaxPoolBackward});
}

bool is_interpolation(kind k) { return one_of(k, {kind::Interpolate, kind::InterpolateBackward}); }

std::string list_text(const std::vector<int64_t> &values) {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return "[" + text + "]";
}

// Kernels index with 32-bit integers derived from these.
constexpr int64_t max_extent = int64_t{1} << 30;

void check_list(const op &o, attr name, int64_t low, int64_t high = max_extent) {
    const auto *values = o.attr<std::vector<int64_t>>(name);
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

const logical_tensor *known_of(const known_tensors &known, const logical_tensor &port) {
    const auto it = known.find(port.id());
    return it == known.end() ? &port : &it->second;
}

// One port of an op, with what is known of it.
struct port {
    const op &o;
    std::string name;
    const logical_tensor *lt;

    int rank() const { return lt ? lt->ndims() : -1; }
    // -1 where it is unknown.
    int64_t dim(int axis) const {
        if (rank() < 0) return -1;
        const int i = axis < 0 ? axis + rank() : axis;
        if (i < 0 || i >= rank()) return -1;
        const int64_t d = lt->data.dims[i];
        return d < 0 ? -1 : d;
    }
    // Product of all dims; -1 where one is unknown.
    int64_t count() const {
        if (rank() < 0) return -1;
        int64_t n = 1;
        for (int i = 0; i < rank(); ++i) {
            if (dim(i) < 0) return -1;
            n *= dim(i);
        }
        return n;
    }
    [[noreturn]] void refuse(const std::string &expected) const {
        raise_invalid_shape(label(o) + ": " + name + " must have " + expected + ", got "
                + shape_text(lt->data));
    }
    void need_rank(int low, int high = DNNL_MAX_NDIMS) const {
        if (rank() < 0 || (rank() >= low && rank() <= high)) return;
        refuse("rank " + std::to_string(low) + (low == high ? "" : " to " + std::to_string(high)));
    }
    void need_dim(int axis, int64_t expected, const std::string &why) const {
        const int64_t d = dim(axis);
        if (d < 0 || expected < 0 || d == expected) return;
        refuse("dim " + std::to_string(axis) + " equal to " + std::to_string(expected) + " (" + why
                + ")");
    }
    void need_count(int64_t expected, const std::string &why) const {
        const int64_t n = count();
        if (n < 0 || expected < 0 || n == expected) return;
        refuse(std::to_string(expected) + " elements (" + why + ")");
    }
    void need_same(const port &other) const {
        if (rank() < 0 || other.rank() < 0) return;
        bool same = rank() == other.rank();
        for (int i = 0; same && i < rank(); ++i)
            same = dim(i) < 0 || other.dim(i) < 0 || dim(i) == other.dim(i);
        if (!same) refuse("the shape of " + other.name + ", " + shape_text(other.lt->data));
    }
};

class ports {
public:
    ports(const op &o, const known_tensors &known) : o_(o), known_(known) {}

    port in(size_t i) const { return make(o_.inputs, i, "input "); }
    port out(size_t i) const { return make(o_.outputs, i, "output "); }

private:
    port make(const std::vector<logical_tensor> &list, size_t i, const char *what) const {
        return {o_, what + std::to_string(i),
                i < list.size() ? known_of(known_, list[i]) : nullptr};
    }
    const op &o_;
    const known_tensors &known_;
};

std::string string_attr(const op &o, attr name, const char *otherwise) {
    const auto *value = o.attr<std::string>(name);
    return value ? *value : otherwise;
}

bool channels_last(const op &o) { return string_attr(o, attr::data_format, "NXC") == "NXC"; }

void need_entries(const op &o, attr name, size_t expected) {
    size_t given = 0;
    if (const auto *ints = o.attr<std::vector<int64_t>>(name))
        given = ints->size();
    else if (const auto *floats = o.attr<std::vector<float>>(name))
        given = floats->size();
    else
        return;
    if (given != expected)
        raise_invalid_shape(label(o) + ": attribute " + enum_name(name) + " must have "
                + std::to_string(expected) + " entries, one for each spatial dim, it has "
                + std::to_string(given));
}

// dim i of weights (without spatial dims), as (output channels, input channels / groups).
std::pair<int64_t, int64_t> weight_channels(const op &o, const port &weights) {
    const std::string format = string_attr(o, attr::weights_format,
            one_of(o.kind,
                    {kind::ConvTranspose, kind::ConvTransposeBackwardData,
                            kind::ConvTransposeBackwardWeights})
                    ? "XOI"
                    : "XIO");
    if (format == "OIX") return {weights.dim(0), weights.dim(1)};
    if (format == "IOX") return {weights.dim(1), weights.dim(0)};
    if (format == "XOI") return {weights.dim(-2), weights.dim(-1)};
    return {weights.dim(-1), weights.dim(-2)};
}

void check_spatial(const op &o, const port &src) {
    src.need_rank(3, 5);
    if (src.rank() < 0) return;
    const auto spatial = static_cast<size_t>(src.rank() - 2);
    for (attr name : {attr::strides, attr::pads_begin, attr::pads_end, attr::kernel,
                 attr::output_padding, attr::sizes, attr::scales})
        need_entries(o, name, spatial);
    // MaxPool's default has an entry for every possible dim.
    const auto *dilations = o.attr<std::vector<int64_t>>(attr::dilations);
    if (dilations && dilations->size() < spatial) need_entries(o, attr::dilations, spatial);
    if (dilations && is_convolution(o.kind)) need_entries(o, attr::dilations, spatial);
}

void check_convolution(const op &o, const ports &p) {
    for (size_t i = 0; i < 2 && i < o.inputs.size(); ++i) {
        // The second input of BackwardData may be a 1-D shape only as the third.
        check_spatial(o, p.in(i));
    }
    if (!o.outputs.empty()) p.out(0).need_rank(3, 5);
    if (o.kind == kind::Convolution || o.kind == kind::ConvTranspose) {
        const auto *groups = o.attr<int64_t>(attr::groups);
        const auto [oc, ic] = weight_channels(o, p.in(1));
        (void)ic;
        if (o.inputs.size() > 2) {
            const bool transposed = o.kind == kind::ConvTranspose;
            const int64_t channels = oc < 0 ? -1 : oc * (transposed && groups ? *groups : 1);
            p.in(2).need_count(channels, "output channels");
        }
    }
    const port src = p.in(0), weights = p.in(1);
    if (o.kind != kind::ConvolutionBackwardWeights && o.kind != kind::ConvTransposeBackwardWeights
            && src.rank() > 0 && weights.rank() > 0 && src.rank() != weights.rank())
        weights.refuse("the rank of input 0, " + std::to_string(src.rank()));
}

// Parameters of one value a channel: scale, shift, mean, variance.
void check_channel_inputs(const op &o, const ports &p, size_t first, int channel_axis) {
    const port src = p.in(0);
    const int64_t channels = src.dim(channel_axis);
    for (size_t i = first; i < o.inputs.size(); ++i) p.in(i).need_count(channels, "channels");
}

void check_quantization(const op &o, const ports &p) {
    const port src = p.in(0);
    const std::string qtype = string_attr(o, attr::qtype, "per_tensor");
    const bool dynamic = one_of(o.kind, {kind::DynamicQuantize, kind::DynamicDequantize});
    const auto *axis_attr = o.attr<int64_t>(attr::axis);
    const int64_t axis = axis_attr ? *axis_attr : 1;
    if (qtype == "per_channel" && src.rank() >= 0 && (axis < -src.rank() || axis >= src.rank()))
        raise_invalid_shape(label(o) + ": attribute axis is " + std::to_string(axis)
                + ", input 0 has rank " + std::to_string(src.rank()));
    const int64_t channels = qtype == "per_channel" ? src.dim(static_cast<int>(axis)) : 1;
    if (dynamic) {
        if (qtype == "per_group") {
            const auto *group = o.attr<std::vector<int64_t>>(attr::group_shape);
            for (size_t i = 1; i < o.inputs.size(); ++i) {
                const port parameters = p.in(i);
                if (!group || src.rank() < 0 || parameters.rank() < 0) continue;
                if (static_cast<int>(group->size()) != src.rank())
                    raise_invalid_shape(label(o) + ": attribute group_shape " + list_text(*group)
                            + " must have one entry for each dim of input 0, "
                            + shape_text(src.lt->data));
                if (parameters.rank() != src.rank()) parameters.refuse("the rank of input 0");
                for (int d = 0; d < src.rank(); ++d) {
                    const int64_t g = (*group)[static_cast<size_t>(d)];
                    if (src.dim(d) < 0) continue;
                    if (src.dim(d) % g != 0)
                        raise_invalid_shape(label(o) + ": attribute group_shape "
                                + list_text(*group) + " does not divide input 0, "
                                + shape_text(src.lt->data));
                    // One set of zero points may serve all groups.
                    if (i == 2 && parameters.count() == 1) continue;
                    parameters.need_dim(d, src.dim(d) / g, "input 0's dim over its group");
                }
            }
            return;
        }
        for (size_t i = 1; i < o.inputs.size(); ++i) {
            if (i == 2 && p.in(i).count() == 1) continue;
            p.in(i).need_count(channels, qtype == "per_channel" ? "channels" : "per tensor");
        }
        return;
    }
    const auto check_values = [&](attr name, size_t given) {
        if (channels >= 0 && given != static_cast<size_t>(channels))
            raise_invalid_shape(label(o) + ": attribute " + enum_name(name) + " must have "
                    + std::to_string(channels) + " entries (" + qtype + "), it has "
                    + std::to_string(given));
    };
    if (const auto *scales = o.attr<std::vector<float>>(attr::scales))
        check_values(attr::scales, scales->size());
    if (const auto *zps = o.attr<std::vector<int64_t>>(attr::zps))
        check_values(attr::zps, zps->size());
}

void check_matmul(const op &o, const ports &p) {
    const port a = p.in(0), b = p.in(1);
    a.need_rank(1);
    b.need_rank(1);
    (void)o;
}

// Ops whose inputs all describe the same elements.
void check_same_shapes(const op &o, const ports &p) {
    for (size_t i = 1; i < o.inputs.size(); ++i) p.in(i).need_same(p.in(0));
}

}  // namespace

void check_attributes(const op &o) {
    for (attr name : {attr::strides, attr::dilations, attr::kernel}) check_list(o, name, 1);
    for (attr name : {attr::pads_begin, attr::pads_end, attr::output_padding})
        check_list(o, name, 0);
    for (attr name : {attr::src_shape, attr::dst_shape, attr::weights_shape, attr::sizes})
        check_list(o, name, 0);
    check_list(o, attr::group_shape, 1);
    check_list(o, attr::shape, -1, int64_t{1} << 60);
    for (attr name : {attr::axes, attr::order})
        check_list(o, name, -DNNL_MAX_NDIMS, DNNL_MAX_NDIMS - 1);
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

void check_shapes(const op &o, const known_tensors &known) {
    const ports p(o, known);
    const int channel_axis = channels_last(o) ? -1 : 1;
    if (is_convolution(o.kind)) return check_convolution(o, p);
    if (is_pooling(o.kind) || is_interpolation(o.kind)) return check_spatial(o, p.in(0));
    switch (o.kind) {
        case kind::MatMul:
            return check_matmul(o, p);
        case kind::BatchNormInference:
        case kind::BatchNormForwardTraining:
            return check_channel_inputs(o, p, 1, channel_axis);
        case kind::BatchNormTrainingBackward:
            p.in(1).need_same(p.in(0));
            return check_channel_inputs(o, p, 2, channel_axis);
        case kind::GroupNorm:
            return check_channel_inputs(o, p, 1, channel_axis);
        case kind::BiasAdd:
            return check_channel_inputs(o, p, 1, channel_axis);
        case kind::Quantize:
        case kind::Dequantize:
        case kind::DynamicQuantize:
        case kind::DynamicDequantize:
            return check_quantization(o, p);
        case kind::AbsBackward:
        case kind::ClampBackward:
        case kind::EluBackward:
        case kind::GELUBackward:
        case kind::HardSigmoidBackward:
        case kind::HardSwishBackward:
        case kind::LogSoftmaxBackward:
        case kind::MishBackward:
        case kind::ReLUBackward:
        case kind::SigmoidBackward:
        case kind::SoftMaxBackward:
        case kind::SoftPlusBackward:
        case kind::SqrtBackward:
        case kind::TanhBackward:
            return check_same_shapes(o, p);
        default:
            return;
    }
}

}  // namespace ogp
