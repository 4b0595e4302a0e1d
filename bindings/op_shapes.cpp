#include "op_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "errors.hpp"

namespace ogp {
namespace {

using kind = dg::op::kind;
using attr = dg::op::attr;
using shapes = std::vector<known_dims>;

[[noreturn]] void refuse(const op &o, const std::string &why) {
    raise_invalid_shape(label(o) + ": " + why);
}

// -- element by element
// ----------------------------------------------------------------------------

known_dims broadcast(const port &a, const port &b) {
    if (a.rank() < 0 || b.rank() < 0) return {};
    dims result(static_cast<size_t>(std::max(a.rank(), b.rank())), unknown);
    for (int i = 1; i <= static_cast<int>(result.size()); ++i) {
        const int64_t x = i <= a.rank() ? a.dim(-i) : 1, y = i <= b.rank() ? b.dim(-i) : 1;
        int64_t &both = result[result.size() - static_cast<size_t>(i)];
        if (x >= 0 && y >= 0 && x != y && x != 1 && y != 1)
            b.refuse("a shape that broadcasts with " + a.name + ", " + a.shape.text());
        // An unknown dim beside one that is not 1 can only be equal to it, or 1.
        if (x < 0 || y < 0)
            both = std::max(x, y) > 1 ? std::max(x, y) : unknown;
        else
            both = x == 1 ? y : x;
    }
    return result;
}

known_dims merged(const known_dims &a, const known_dims &b) {
    if (!a.has_rank) return b;
    if (!b.has_rank || a.rank() != b.rank()) return a;
    dims result = a.values;
    for (size_t i = 0; i < result.size(); ++i)
        if (result[i] < 0) result[i] = b.values[i];
    return result;
}

bool no_broadcast(const op &o) { return string_attr(o, attr::auto_broadcast, "numpy") == "none"; }

shapes infer_binary(const op &o, const ports &p) {
    if (!no_broadcast(o)) return {broadcast(p.in(0), p.in(1))};
    p.in(1).need_shape(p.in(0).shape, "that of input 0, as auto_broadcast is none");
    return {merged(p.in(0).shape, p.in(1).shape)};
}

shapes infer_select(const op &o, const ports &p) {
    for (size_t i = 0; i < o.inputs.size(); ++i)
        p.in(i).need_rank(0, 5);  // the kernel overflows its arrays with more
    if (no_broadcast(o)) {
        p.in(1).need_shape(p.in(0).shape, "that of input 0, as auto_broadcast is none");
        p.in(2).need_shape(p.in(0).shape, "that of input 0, as auto_broadcast is none");
        return {merged(p.in(0).shape, merged(p.in(1).shape, p.in(2).shape))};
    }
    const known_dims both = broadcast(p.in(1), p.in(2));
    p.in(0).need_broadcastable(both, "inputs 1 and 2 together");
    return {both};
}

// -- windows
// ---------------------------------------------------------------------------------------

struct window {
    dims strides, pads_begin, pads_end, dilations, kernel;
    std::string auto_pad;

    // Dilated size of the kernel.
    int64_t extent(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
    // oneDNN computes the paddings itself.
    bool automatic() const { return auto_pad != "None"; }
};

// oneDNN's own default of a list: the same for every possible dim. Dumped graphs spell it out.
bool is_default_list(const std::vector<int64_t> &list, int64_t value) {
    return list.size() == DNNL_MAX_NDIMS
            && std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

// `all` entries of an attribute; unknown ones where it is not given (oneDNN then complains itself).
dims entries(const op &o, attr name, size_t all, int64_t otherwise) {
    const auto *list = list_attr(o, name);
    if (!list) return dims(all, otherwise);
    if (is_default_list(*list, otherwise)) return dims(all, otherwise);
    if (list->size() != all)
        refuse(o,
                "attribute " + enum_name(name) + " must have " + std::to_string(all)
                        + " entries, one for each spatial dim, it has "
                        + std::to_string(list->size()));
    return *list;
}

window window_of(const op &o, size_t spatial, dims kernel) {
    return {entries(o, attr::strides, spatial, 1), entries(o, attr::pads_begin, spatial, 0),
            entries(o, attr::pads_end, spatial, 0), entries(o, attr::dilations, spatial, 1),
            std::move(kernel), string_attr(o, attr::auto_pad, "None")};
}

// Outputs of a window that slides over `size`: what convolution and pooling compute.
int64_t slide(const op &o, const window &w, size_t i, int64_t size, bool ceil) {
    if (size < 0 || w.kernel[i] < 0) return unknown;
    if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER")
        return (size + w.strides[i] - 1) / w.strides[i];
    int64_t padded = size;
    if (!w.automatic()) padded += w.pads_begin[i] + w.pads_end[i];
    const int64_t room = padded - w.extent(i);
    if (room < 0)
        refuse(o,
                "the window of " + std::to_string(w.extent(i)) + " does not fit into the padded "
                        + std::to_string(padded) + " of spatial dim " + std::to_string(i));
    return (room + (ceil ? w.strides[i] - 1 : 0)) / w.strides[i] + 1;
}

// The reverse: the size that a transposed convolution makes out of `size`.
int64_t unslide(const op &o, const window &w, size_t i, int64_t size, int64_t output_padding) {
    if (size < 0 || w.kernel[i] < 0) return unknown;
    int64_t pads = 0;
    if (!w.automatic()) pads = w.pads_begin[i] + w.pads_end[i];
    if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER")
        pads = std::max<int64_t>(w.extent(i) - w.strides[i], 0);
    const int64_t made = w.strides[i] * (size - 1) + w.extent(i) - pads + output_padding;
    if (made < 1)
        refuse(o,
                "spatial dim " + std::to_string(i) + " of the output would have size "
                        + std::to_string(made));
    return made;
}

// Data tensors by their parts, whatever the layout.
struct data_parts {
    int64_t batch, channels;
    dims spatial;
};

data_parts parts_of(const op &o, const port &data) {
    data.need_rank(3, 5);
    const int first = channels_last(o) ? 1 : 2;
    data_parts parts{data.dim(0), data.dim(channels_last(o) ? -1 : 1), {}};
    for (int i = 0; i < data.rank() - 2; ++i) parts.spatial.push_back(data.dim(first + i));
    return parts;
}

known_dims assemble(const op &o, const data_parts &parts) {
    dims result{parts.batch};
    if (!channels_last(o)) result.push_back(parts.channels);
    result.insert(result.end(), parts.spatial.begin(), parts.spatial.end());
    if (channels_last(o)) result.push_back(parts.channels);
    return result;
}

struct weight_parts {
    int64_t out, in;  // one of them is per group, which one depends on the kind
    dims spatial;
};

weight_parts parts_of_weights(const op &o, const port &weights) {
    weights.need_rank(3, 5);
    const std::string format =
            string_attr(o, attr::weights_format, is_transposed_convolution(o.kind) ? "XOI" : "XIO");
    const bool spatial_first = format[0] == 'X';
    const bool out_first = format.find('O') < format.find('I');
    const int first = spatial_first ? -2 : 0;
    weight_parts parts{
            weights.dim(first + (out_first ? 0 : 1)), weights.dim(first + (out_first ? 1 : 0)), {}};
    for (int i = 0; i < weights.rank() - 2; ++i)
        parts.spatial.push_back(weights.dim(i + (spatial_first ? 0 : 2)));
    return parts;
}

// An output whose shape an attribute names.
void take_shape_attr(port &output, attr name) {
    const auto *list = list_attr(*output.o, name);
    if (!list || is_default_list(*list, 0)) return;
    for (int64_t d : *list)
        if (d < 1)
            refuse(*output.o,
                    "attribute " + enum_name(name) + " is " + list_text(*list)
                            + ", every entry must be at least 1");
    output.need_shape(*list, "as attribute " + enum_name(name) + " says");
    output.shape = merged(output.shape, *list);
}

shapes infer_convolution(const op &o, const ports &p) {
    // A transposed convolution is a convolution with `wide` and `narrow` exchanged.
    const bool transposed = is_transposed_convolution(o.kind);
    const bool to_weights =
            one_of(o.kind, {kind::ConvolutionBackwardWeights, kind::ConvTransposeBackwardWeights});
    const bool to_data =
            one_of(o.kind, {kind::ConvolutionBackwardData, kind::ConvTransposeBackwardData});
    port in0 = p.in(0), in1 = p.in(1), made = p.out(0);
    if (to_weights) take_shape_attr(made, attr::weights_shape);
    if (o.kind == kind::ConvolutionBackwardData) take_shape_attr(made, attr::dst_shape);
    const port weights = to_weights ? made : in1;
    // The input and output of the forward op.
    const port src = to_data ? made : in0;
    const port dst = to_weights ? in1 : to_data ? in0 : made;
    for (const port *other : {&in1, &made})
        if (in0.rank() >= 0 && other->rank() >= 0) other->need_rank(in0.rank(), in0.rank());

    const data_parts s = parts_of(o, src), d = parts_of(o, dst);
    const weight_parts w = parts_of_weights(o, weights);
    const int64_t groups = s64_attr(o, attr::groups, 1);
    const auto divided = [&](int64_t channels, const port &of) {
        if (channels >= 0 && channels % groups != 0)
            of.refuse("channels that " + std::to_string(groups) + " groups divide");
        return channels < 0 ? unknown : channels / groups;
    };
    const auto times = [&](int64_t channels) { return channels < 0 ? unknown : channels * groups; };
    const auto same = [&](int64_t a, int64_t b, const port &of, const std::string &what) {
        if (a >= 0 && b >= 0 && a != b)
            of.refuse(std::to_string(b) + " " + what + ", it has " + std::to_string(a));
    };
    // Convolution: weights are (OC, IC / groups); ConvTranspose: (OC / groups, IC).
    const int64_t out_channels = transposed ? times(w.out) : w.out;
    if (transposed) {
        divided(w.in, weights);
        same(s.channels, w.in, src, "channels, as the weights say");
    } else {
        divided(w.out, weights);
        same(divided(s.channels, src), w.in, weights, "input channels for each group");
    }
    same(d.channels, out_channels, dst, "channels, as the weights say");
    same(d.batch, s.batch, dst, "batches");
    if (o.inputs.size() > 2 && !to_data && !to_weights) {
        p.in(2).need_rank(1, 1);
        p.in(2).need_count(out_channels, "output channels");
    }

    if (in0.rank() < 0) {
        // The lists must fit each other even so.
        return {made.shape};
    }
    const auto spatial = static_cast<size_t>(in0.rank() - 2);
    const window win =
            window_of(o, spatial, w.spatial.size() == spatial ? w.spatial : dims(spatial, unknown));
    const dims padding = entries(o, attr::output_padding, spatial, 0);
    for (size_t i = 0; i < spatial; ++i)
        if (padding[i] >= std::max(win.strides[i], win.dilations[i]))
            refuse(o,
                    "attribute output_padding must be below the strides or dilations, it is "
                            + list_text(padding));
    for (int64_t k : win.kernel)
        if (k == 0) weights.refuse("spatial dims of at least 1");
    const auto at = [](const dims &values, size_t i) {
        return i < values.size() ? values[i] : unknown;
    };
    if (to_weights || to_data) {
        // Everything is given; it must be what the forward op would relate.
        if (win.automatic()) return {made.shape};
        for (size_t i = 0; i < spatial; ++i) {
            const int64_t wide = transposed ? at(d.spatial, i) : at(s.spatial, i);
            const int64_t narrow = transposed ? at(s.spatial, i) : at(d.spatial, i);
            const int64_t slid = slide(o, win, i, wide, false);
            if (slid < 0 || narrow < 0 || slid == narrow) continue;
            if (to_data && transposed) continue;  // the output follows, below
            refuse(o,
                    "spatial dim " + std::to_string(i) + " goes from " + std::to_string(wide)
                            + " to " + std::to_string(slid) + " in the convolution, not to "
                            + std::to_string(narrow));
        }
        if (!(to_data && transposed)) return {made.shape};
        data_parts parts{d.batch, w.in, {}};
        for (size_t i = 0; i < spatial; ++i)
            parts.spatial.push_back(slide(o, win, i, at(d.spatial, i), false));
        return {assemble(o, parts)};
    }
    data_parts parts{s.batch, out_channels, {}};
    for (size_t i = 0; i < spatial; ++i)
        parts.spatial.push_back(transposed ? unslide(o, win, i, at(s.spatial, i), padding[i])
                                           : slide(o, win, i, at(s.spatial, i), false));
    return {assemble(o, parts)};
}

shapes infer_pooling(const op &o, const ports &p) {
    port src = p.in(0);
    if (o.kind == kind::AvgPoolBackward) {
        src = p.out(0);
        take_shape_attr(src, attr::src_shape);
    }
    if (src.rank() < 0) return {src.shape};
    data_parts parts = parts_of(o, src);
    const auto *kernel = list_attr(o, attr::kernel);
    if (!kernel) return {{}};
    const size_t spatial = parts.spatial.size();
    const window w = window_of(o, spatial, entries(o, attr::kernel, spatial, 1));
    const bool ceil = string_attr(o, attr::rounding_type, "floor") == "ceil";
    for (size_t i = 0; i < spatial; ++i) parts.spatial[i] = slide(o, w, i, parts.spatial[i], ceil);
    const known_dims pooled = assemble(o, parts);
    switch (o.kind) {
        case kind::AvgPoolBackward:
            p.in(0).need_shape(pooled, "what the forward op makes of " + src.shape.text());
            return {src.shape};
        case kind::MaxPoolBackward:
            p.in(1).need_shape(pooled, "what the forward op makes of " + src.shape.text());
            return {src.shape};
        default:
            return {pooled};
    }
}

shapes infer_interpolation(const op &o, const ports &p) {
    const port src = p.in(0);
    if (src.rank() < 0) return {{}};
    data_parts parts = parts_of(o, src);
    const size_t spatial = parts.spatial.size();
    const auto need = [&](attr name, size_t given) {
        if (given != spatial)
            refuse(o,
                    "attribute " + enum_name(name) + " must have " + std::to_string(spatial)
                            + " entries, one for each spatial dim, it has "
                            + std::to_string(given));
    };
    const auto *scales = o.attr<std::vector<float>>(attr::scales);
    const auto *sizes = list_attr(o, attr::sizes);
    if (scales) need(attr::scales, scales->size());
    if (sizes) need(attr::sizes, sizes->size());
    for (size_t i = 0; i < spatial; ++i) {
        int64_t &d = parts.spatial[i];
        if (sizes) {
            d = (*sizes)[i];
        } else if (scales && d >= 0) {
            // In single precision, as oneDNN does.
            const float scaled = static_cast<float>(d) * (*scales)[i];
            if (!(scaled >= 1.0F && scaled < 1.0e9F))
                refuse(o,
                        "attribute scales makes spatial dim " + std::to_string(i)
                                + " of the output " + std::to_string(scaled));
            d = static_cast<int64_t>(scaled);
        } else {
            d = unknown;
        }
    }
    const known_dims made = assemble(o, parts);
    if (o.kind == kind::Interpolate) return {made};
    p.in(1).need_shape(made, "what the forward op makes of " + src.shape.text());
    return {src.shape};
}

// -- products
// --------------------------------------------------------------------------------------

shapes infer_matmul(const op &o, const ports &p) {
    const port a = p.in(0), b = p.in(1);
    a.need_rank(1);
    b.need_rank(1);
    if (a.rank() < 0 || b.rank() < 0) return {{}};
    const bool transpose_a = bool_attr(o, attr::transpose_a, false) && a.rank() > 1;
    const bool transpose_b = bool_attr(o, attr::transpose_b, false) && b.rank() > 1;
    const int64_t k = a.rank() == 1 ? a.dim(0) : a.dim(transpose_a ? -2 : -1);
    b.need_dim(b.rank() == 1 ? 0 : transpose_b ? -1 : -2, k, "input 0's columns");
    const auto batch = [&](const port &of) {
        const auto matrix = std::min(of.rank(), 2);
        return port{&o, of.name + "'s batch",
                dims(of.shape.values.begin(), of.shape.values.end() - matrix)};
    };
    dims made = broadcast(batch(a), batch(b)).values;
    if (a.rank() > 1) made.push_back(a.dim(transpose_a ? -1 : -2));
    const int64_t columns = b.rank() > 1 ? b.dim(transpose_b ? -2 : -1) : unknown;
    if (b.rank() > 1) made.push_back(columns);
    if (o.inputs.size() > 2) {
        p.in(2).need_broadcastable(made, "the product");
        if (made.empty()) p.in(2).need_count(1, "the product is one number");
    }
    return {made};
}

// -- normalization
// ---------------------------------------------------------------------------------

// Inputs and outputs of one value a channel: scale, shift, mean, variance.
shapes infer_batch_norm(const op &o, const ports &p) {
    const port src = p.in(0);
    src.need_rank(2, 5);  // the kernels know no more
    const bool backward = o.kind == kind::BatchNormTrainingBackward;
    if (backward) p.in(1).need_shape(src.shape, "that of input 0");
    const int64_t channels = src.dim(channels_last(o) ? -1 : 1);
    for (size_t i = backward ? 2 : 1; i < o.inputs.size(); ++i) {
        p.in(i).need_rank(1, 1);
        p.in(i).need_count(channels, "channels");
    }
    shapes made{src.shape};
    for (size_t i = 1; i < o.outputs.size(); ++i) made.push_back(dims{channels});
    return made;
}

// A part of the dims; unknown when they are.
known_dims slice(const known_dims &of, int begin, int end) {
    if (!of.has_rank) return {};
    return dims(of.values.begin() + begin, of.values.begin() + end);
}

int64_t product(const known_dims &of) {
    int64_t n = 1;
    if (!of.has_rank) return unknown;
    for (int64_t d : of.values) {
        if (d < 0) return unknown;
        n *= d;
    }
    return n;
}

// What use_affine and keep_stats promise must be there, and no more.
void check_norm_ports(const op &o, size_t affine_from, bool has_statistics) {
    const bool affine = bool_attr(o, attr::use_affine, true);
    if (!affine && o.inputs.size() > affine_from)
        refuse(o,
                "use_affine is False, so it takes " + std::to_string(affine_from) + " inputs, got "
                        + std::to_string(o.inputs.size()));
    if (o.kind == kind::LayerNormBackward) {
        if (affine && o.inputs.size() <= affine_from)
            refuse(o, "use_affine is True, so it needs the input gamma");
        if (!affine && o.outputs.size() > 1)
            refuse(o,
                    "use_affine is False, so it has one output, got "
                            + std::to_string(o.outputs.size()));
    }
    if (has_statistics && !bool_attr(o, attr::keep_stats, true) && o.outputs.size() > 1)
        refuse(o,
                "keep_stats is False, so it has one output, got "
                        + std::to_string(o.outputs.size()));
}

shapes infer_layer_norm(const op &o, const ports &p) {
    if (o.kind == kind::LayerNorm) check_norm_ports(o, 1, true);
    if (o.kind == kind::LayerNormBackward) check_norm_ports(o, 4, false);
    const port src = p.in(0);
    if (src.rank() < 0) return {};
    src.need_rank(1);
    const int axis = axis_attr(o, attr::begin_norm_axis, -1, src.rank());
    const known_dims kept = slice(src.shape, 0, axis), normal = slice(src.shape, axis, src.rank());
    const bool backward = o.kind == kind::LayerNormBackward;
    if (backward) {
        p.in(1).need_shape(src.shape, "that of input 0");
        for (size_t i : {2, 3}) {
            p.in(i).need_shape(kept, "the dims that are not normalized");
            p.in(i).need_count(product(kept), "one for each normalized part");
        }
    }
    for (size_t i = backward ? 4 : 1; i < o.inputs.size(); ++i)
        p.in(i).need_shape(normal, "the normalized dims");
    if (backward) return {src.shape, normal, normal};
    return {src.shape, kept, kept};
}

shapes infer_group_norm(const op &o, const ports &p) {
    const port src = p.in(0);
    check_norm_ports(o, 1, true);
    // With rank 2 oneDNN 3.7 to 3.13 crashes; with more than 5 it reads out of bounds.
    src.need_rank(3, 5);
    const int64_t channels = src.dim(channels_last(o) ? -1 : 1);
    const int64_t groups = s64_attr(o, attr::groups, 1);
    if (channels >= 0 && channels % groups != 0)
        src.refuse("channels that " + std::to_string(groups) + " groups divide");
    for (size_t i = 1; i < o.inputs.size(); ++i) {
        p.in(i).need_rank(1, 1);
        p.in(i).need_count(channels, "channels");
    }
    const known_dims statistics = dims{src.dim(0), groups};
    return {src.shape, statistics, statistics};
}

shapes infer_softmax(const op &o, const ports &p) {
    const port src = p.in(0);
    if (src.rank() < 0) return {};
    const int64_t otherwise = one_of(o.kind, {kind::LogSoftmax, kind::LogSoftmaxBackward}) ? -1 : 1;
    src.need_rank(1);
    const int axis = axis_attr(o, attr::axis, otherwise, src.rank());
    if (one_of(o.kind, {kind::SoftMaxBackward, kind::LogSoftmaxBackward})) {
        p.in(1).need_shape(src.shape, "that of input 0");
        return {src.shape};
    }
    dims statistics = src.shape.values;
    statistics[static_cast<size_t>(axis)] = 1;
    return {src.shape, statistics};
}

// -- quantization
// ----------------------------------------------------------------------------------

void check_groups(const op &o, const port &src, const port &parameters, bool may_be_one) {
    const auto *group = list_attr(o, attr::group_shape);
    if (!group || src.rank() < 0 || parameters.rank() < 0) return;
    if (static_cast<int>(group->size()) != src.rank())
        refuse(o,
                "attribute group_shape " + list_text(*group)
                        + " must have one entry for each dim of input 0, " + src.shape.text());
    if (may_be_one && parameters.count() == 1) return;
    parameters.need_rank(src.rank(), src.rank());
    for (int d = 0; d < src.rank(); ++d) {
        const int64_t g = (*group)[static_cast<size_t>(d)];
        if (src.dim(d) < 0) continue;
        if (src.dim(d) % g != 0)
            refuse(o,
                    "attribute group_shape " + list_text(*group) + " does not divide input 0, "
                            + src.shape.text());
        parameters.need_dim(d, src.dim(d) / g, "input 0's dim over its group");
    }
}

shapes infer_quantization(const op &o, const ports &p) {
    const port src = p.in(0);
    const std::string qtype = string_attr(o, attr::qtype, "per_tensor");
    if (src.rank() < 0) return {};
    int64_t channels = 1;
    if (qtype == "per_channel") channels = src.dim(axis_attr(o, attr::axis, 1, src.rank()));
    if (one_of(o.kind, {kind::DynamicQuantize, kind::DynamicDequantize})) {
        for (size_t i = 1; i < o.inputs.size(); ++i) {
            const port parameters = p.in(i);
            // One zero point may serve all channels or groups.
            const bool may_be_one = i == 2;
            if (qtype == "per_group") {
                check_groups(o, src, parameters, may_be_one);
            } else if (!may_be_one || parameters.count() != 1) {
                parameters.need_rank(0, 1);
                parameters.need_count(channels, qtype == "per_channel" ? "channels" : "per tensor");
            }
        }
        return {src.shape};
    }
    const auto check_values = [&](attr name, size_t given) {
        // Of the weights of a grouped ConvTranspose a dim has the channels of one group.
        const auto needed = static_cast<size_t>(channels);
        const bool grouped = qtype == "per_channel" && channels > 0 && given % needed == 0;
        if (channels >= 0 && given != needed && !(grouped && given > 0))
            refuse(o,
                    "attribute " + enum_name(name) + " must have " + std::to_string(channels)
                            + " entries (" + qtype + "), it has " + std::to_string(given));
    };
    if (const auto *scales = o.attr<std::vector<float>>(attr::scales))
        check_values(attr::scales, scales->size());
    if (const auto *zps = list_attr(o, attr::zps)) check_values(attr::zps, zps->size());
    return {src.shape};
}

// -- moving elements
// -------------------------------------------------------------------------------

shapes infer_reduction(const op &o, const ports &p) {
    const port src = p.in(0);
    const auto *axes = list_attr(o, attr::axes);
    if (src.rank() < 0 || !axes) return {};
    std::set<int64_t> reduced;
    for (int64_t axis : *axes) {
        if (axis < -src.rank() || axis >= src.rank()
                || !reduced.insert(axis < 0 ? axis + src.rank() : axis).second)
            refuse(o,
                    "attribute axes is " + list_text(*axes) + ", which must be different axes of "
                            + "input 0, of rank " + std::to_string(src.rank()));
    }
    const bool keep = bool_attr(o, attr::keep_dims, false);
    dims made;
    for (int i = 0; i < src.rank(); ++i) {
        const bool gone = reduced.count(i) != 0;
        if (!gone || keep) made.push_back(gone ? 1 : src.dim(i));
    }
    return {made};
}

shapes infer_reshape(const op &o, const ports &p) {
    const port src = p.in(0);
    const auto *shape = list_attr(o, attr::shape);
    if (!shape) return {};
    dims made = *shape;
    int64_t *rest = nullptr;
    int64_t known = 1;
    constexpr int64_t most = int64_t{1} << 60;
    const auto bad = [&](const std::string &why) {
        refuse(o, "attribute shape " + list_text(*shape) + " " + why);
    };
    for (size_t i = 0; i < made.size(); ++i) {
        if (made[i] == 0 && bool_attr(o, attr::special_zero, false)) {
            if (src.rank() < 0) return {dims(made.size(), unknown)};
            if (static_cast<int>(i) >= src.rank())
                bad("takes a dim that input 0, " + src.shape.text() + ", has not");
            made[i] = src.dim(static_cast<int>(i));
            if (made[i] < 0) return {dims(made.size(), unknown)};
        }
        if (made[i] == -1) {
            if (rest) bad("has more than one -1");
            rest = &made[i];
            continue;
        }
        if (made[i] > 0 && known > most / made[i]) bad("has more elements than memory can hold");
        known *= made[i];
    }
    const int64_t count = src.count();
    if (count < 0) return {made};
    if (rest) {
        if (known == 0 || count % known != 0) bad("does not divide input 0, " + src.shape.text());
        *rest = count / known;
    } else if (known != count) {
        bad("has " + std::to_string(known) + " elements, input 0, " + src.shape.text() + ", has "
                + std::to_string(count));
    }
    return {made};
}

shapes infer_transpose(const op &o, const ports &p) {
    const port src = p.in(0);
    const auto *order = list_attr(o, attr::order);
    if (src.rank() < 0 || !order) return {};
    std::set<int64_t> seen;
    dims made;
    for (int64_t axis : *order) {
        const int64_t i = axis < 0 ? axis + src.rank() : axis;
        if (i >= 0 && i < src.rank() && seen.insert(i).second)
            made.push_back(src.dim(static_cast<int>(i)));
    }
    if (static_cast<int>(made.size()) != src.rank()
            || order->size() != static_cast<size_t>(src.rank()))
        refuse(o,
                "attribute order is " + list_text(*order) + ", which must name each axis of input "
                        + "0, of rank " + std::to_string(src.rank()) + ", once");
    return {made};
}

shapes infer_concat(const op &o, const ports &p) {
    const port first = p.in(0);
    if (first.rank() < 0 || !o.attr<int64_t>(attr::axis)) return {};
    const int axis = axis_attr(o, attr::axis, 0, first.rank());
    known_dims made = first.shape;
    int64_t &sum = made.values[static_cast<size_t>(axis)];
    for (size_t i = 1; i < o.inputs.size(); ++i) {
        const port next = p.in(i);
        if (next.rank() < 0) return {};
        next.need_rank(first.rank(), first.rank());
        for (int d = 0; d < first.rank(); ++d)
            if (d != axis) next.need_dim(d, first.dim(d), "that of input 0");
        sum = sum < 0 || next.dim(axis) < 0 ? unknown : sum + next.dim(axis);
    }
    return {made};
}

// -- the rest
// --------------------------------------------------------------------------------------

shapes infer_bias_add(const op &o, const ports &p) {
    p.in(0).need_rank(2);
    p.in(1).need_rank(1, 1);
    p.in(1).need_count(p.in(0).dim(channels_last(o) ? -1 : 1), "channels");
    return {p.in(0).shape};
}

shapes infer_bias_add_backward(const op &o, const ports &p) {
    p.in(0).need_rank(2);
    return {dims{p.in(0).dim(channels_last(o) ? -1 : 1)}};
}

shapes infer_prelu(const op &o, const ports &p) {
    p.in(0).need_rank(2);  // compiling it for one dim crashes
    const port src = p.in(0), slope = p.in(1);
    src.need_rank(2);
    if (o.kind == kind::PReLUBackward) {
        p.in(2).need_shape(src.shape, "that of input 0");
        return {src.shape, slope.shape};
    }
    return {src.shape};
}

shapes infer_axis_of_itself(const op &o, const ports &p) {
    const port src = p.in(0);
    src.need_rank(1);
    if (src.rank() > 0) axis_attr(o, attr::axis, 0, src.rank());
    return {src.shape};
}

// Inputs and outputs that all describe the same elements.
shapes infer_same(const op &o, const ports &p, size_t data_inputs) {
    for (size_t i = 1; i < std::min(data_inputs, o.inputs.size()); ++i)
        p.in(i).need_shape(p.in(0).shape, "that of input 0");
    return shapes(o.outputs.size(), p.in(0).shape);
}

}  // namespace

shapes infer_outputs(const op &o, const ports &p) {
    if (is_convolution(o.kind)) return infer_convolution(o, p);
    if (is_pooling(o.kind)) return infer_pooling(o, p);
    if (is_interpolation(o.kind)) return infer_interpolation(o, p);
    switch (o.kind) {
        case kind::End:
        case kind::Wildcard:
            return {};
        case kind::Add:
        case kind::Divide:
        case kind::GreaterEqual:
        case kind::Maximum:
        case kind::Minimum:
        case kind::Multiply:
        case kind::SquaredDifference:
        case kind::Subtract:
            return infer_binary(o, p);
        case kind::Select:
            return infer_select(o, p);
        case kind::MatMul:
            return infer_matmul(o, p);
        case kind::BatchNormInference:
        case kind::BatchNormForwardTraining:
        case kind::BatchNormTrainingBackward:
            return infer_batch_norm(o, p);
        case kind::LayerNorm:
        case kind::LayerNormBackward:
            return infer_layer_norm(o, p);
        case kind::GroupNorm:
            return infer_group_norm(o, p);
        case kind::SoftMax:
        case kind::SoftMaxBackward:
        case kind::LogSoftmax:
        case kind::LogSoftmaxBackward:
            return infer_softmax(o, p);
        case kind::Quantize:
        case kind::Dequantize:
        case kind::DynamicQuantize:
        case kind::DynamicDequantize:
            return infer_quantization(o, p);
        case kind::ReduceL1:
        case kind::ReduceL2:
        case kind::ReduceMax:
        case kind::ReduceMean:
        case kind::ReduceMin:
        case kind::ReduceProd:
        case kind::ReduceSum:
            return infer_reduction(o, p);
        case kind::StaticReshape:
            return infer_reshape(o, p);
        case kind::StaticTranspose:
            return infer_transpose(o, p);
        case kind::Concat:
            return infer_concat(o, p);
        case kind::BiasAdd:
            return infer_bias_add(o, p);
        case kind::BiasAddBackward:
            return infer_bias_add_backward(o, p);
        case kind::PReLU:
        case kind::PReLUBackward:
            return infer_prelu(o, p);
        case kind::GenIndex:
            return infer_axis_of_itself(o, p);
#if OGP_ONEDNN_AT_LEAST(3, 11)
        case kind::RMSNorm:
            return infer_layer_norm(o, p);
#endif
#if OGP_ONEDNN_AT_LEAST(3, 12)
        case kind::Dropout:
            return infer_same(o, p, 1);
#endif
        default:
            return infer_same(o, p, o.inputs.size());
    }
}

}  // namespace ogp
