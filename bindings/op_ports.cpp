#include "op_ports.hpp"

#include <algorithm>

#include "errors.hpp"

namespace ogp {

using kind = dg::op::kind;
using attr = dg::op::attr;

known_dims::known_dims(const logical_tensor &lt) : has_rank(lt.ndims() >= 0) {
    for (int64_t d : lt.shape()) values.push_back(d < 0 ? unknown : d);
}

std::string known_dims::text() const {
    if (!has_rank) return "unknown rank";
    if (values.empty()) return "scalar";
    std::string text;
    for (size_t i = 0; i < values.size(); ++i)
        text += (i ? "x" : "") + (values[i] < 0 ? std::string("?") : std::to_string(values[i]));
    return text;
}

int64_t port::dim(int axis) const {
    if (rank() < 0) return unknown;
    const int i = axis < 0 ? axis + rank() : axis;
    return i < 0 || i >= rank() ? unknown : shape.values[static_cast<size_t>(i)];
}

int64_t port::count() const {
    if (rank() < 0) return unknown;
    int64_t n = 1;
    for (int64_t d : shape.values) {
        if (d < 0) return unknown;
        n *= d;
    }
    return n;
}

void port::refuse(const std::string &expected) const {
    raise_invalid_shape(
            label(*o) + ": " + name + " must have " + expected + ", got " + shape.text());
}

void port::need_rank(int low, int high) const {
    if (rank() < 0 || (rank() >= low && rank() <= high)) return;
    refuse("rank " + std::to_string(low) + (low == high ? "" : " to " + std::to_string(high)));
}

void port::need_dim(int axis, int64_t expected, const std::string &why) const {
    const int64_t d = dim(axis);
    if (d < 0 || expected < 0 || d == expected) return;
    refuse("dim " + std::to_string(axis < 0 ? axis + rank() : axis) + " equal to "
            + std::to_string(expected) + " (" + why + ")");
}

void port::need_count(int64_t expected, const std::string &why) const {
    const int64_t n = count();
    if (n < 0 || expected < 0 || n == expected) return;
    refuse(std::to_string(expected) + " elements (" + why + ")");
}

void port::need_shape(const known_dims &expected, const std::string &why) const {
    if (rank() < 0 || expected.rank() < 0) return;
    bool same = rank() == expected.rank();
    for (size_t i = 0; same && i < shape.values.size(); ++i) {
        const int64_t a = shape.values[i], b = expected.values[i];
        same = a < 0 || b < 0 || a == b;
    }
    if (!same) refuse("the shape " + expected.text() + " (" + why + ")");
}

void port::need_broadcastable(const known_dims &target, const std::string &why) const {
    if (rank() < 0 || target.rank() < 0) return;
    bool fits = rank() <= target.rank();
    for (int i = 1; fits && i <= rank(); ++i) {
        const int64_t a = dim(-i), b = target.values[static_cast<size_t>(target.rank() - i)];
        fits = a < 0 || b < 0 || a == b || a == 1;
    }
    if (!fits) refuse("a shape that broadcasts to " + target.text() + " (" + why + ")");
}

port ports::make(const std::vector<logical_tensor> &list, size_t i, const char *what) const {
    port made{&o_, what + std::to_string(i), {}};
    if (i >= list.size()) return made;
    const auto it = known_.find(list[i].id());
    made.shape = it == known_.end() ? known_dims(list[i]) : it->second;
    return made;
}

std::string string_attr(const op &o, attr name, const char *otherwise) {
    const auto *value = o.attr<std::string>(name);
    return value ? *value : otherwise;
}

int64_t s64_attr(const op &o, attr name, int64_t otherwise) {
    const auto *value = o.attr<int64_t>(name);
    return value ? *value : otherwise;
}

bool bool_attr(const op &o, attr name, bool otherwise) {
    const auto *value = o.attr<bool>(name);
    return value ? *value : otherwise;
}

const std::vector<int64_t> *list_attr(const op &o, attr name) {
    return o.attr<std::vector<int64_t>>(name);
}

std::string list_text(const std::vector<int64_t> &values) {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return "[" + text + "]";
}

bool channels_last(const op &o) { return string_attr(o, attr::data_format, "NXC") == "NXC"; }

int axis_attr(const op &o, attr name, int64_t otherwise, int rank) {
    const int64_t axis = s64_attr(o, name, otherwise);
    if (axis < -rank || axis >= rank)
        raise_invalid_shape(label(o) + ": attribute " + enum_name(name) + " is "
                + std::to_string(axis) + ", input 0 has rank " + std::to_string(rank));
    return static_cast<int>(axis < 0 ? axis + rank : axis);
}

bool one_of(kind k, std::initializer_list<kind> kinds) {
    return std::find(kinds.begin(), kinds.end(), k) != kinds.end();
}

bool is_transposed_convolution(kind k) {
    return one_of(k,
            {kind::ConvTranspose, kind::ConvTransposeBackwardData,
                    kind::ConvTransposeBackwardWeights});
}

bool is_convolution(kind k) {
    return is_transposed_convolution(k)
            || one_of(k,
                    {kind::Convolution, kind::ConvolutionBackwardData,
                            kind::ConvolutionBackwardWeights});
}

bool is_pooling(kind k) {
    return one_of(k, {kind::AvgPool, kind::AvgPoolBackward, kind::MaxPool, kind::MaxPoolBackward});
}

bool is_interpolation(kind k) { return one_of(k, {kind::Interpolate, kind::InterpolateBackward}); }

}  // namespace ogp
