// An op's inputs and outputs with what is known of them, for the rules about shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "op.hpp"

namespace ogp {

constexpr int64_t unknown = -1;

// Dims as far as they are known; an unknown one is -1.
struct known_dims {
    bool has_rank = false;
    dims values;

    known_dims() = default;
    known_dims(dims v) : has_rank(true), values(std::move(v)) {}
    explicit known_dims(const logical_tensor &lt);

    int rank() const { return has_rank ? static_cast<int>(values.size()) : -1; }
    std::string text() const;
};

using shapes_by_id = std::map<size_t, known_dims>;
using tensors_by_id = std::map<size_t, logical_tensor>;

// One port of an op. Every check passes over what is unknown.
struct port {
    const op *o;
    std::string name;
    known_dims shape;

    int rank() const { return shape.rank(); }
    // Counts from the end when negative; -1 where unknown.
    int64_t dim(int axis) const;
    // Number of elements; -1 where unknown.
    int64_t count() const;

    [[noreturn]] void refuse(const std::string &expected) const;
    void need_rank(int low, int high = DNNL_MAX_NDIMS) const;
    void need_dim(int axis, int64_t expected, const std::string &why) const;
    void need_count(int64_t expected, const std::string &why) const;
    void need_shape(const known_dims &expected, const std::string &why) const;
    // That it can be stretched to `target`, as NumPy does.
    void need_broadcastable(const known_dims &target, const std::string &why) const;
};

class ports {
public:
    ports(const op &o, const shapes_by_id &known) : o_(o), known_(known) {}

    port in(size_t i) const { return make(o_.inputs, i, "input "); }
    port out(size_t i) const { return make(o_.outputs, i, "output "); }

private:
    port make(const std::vector<logical_tensor> &list, size_t i, const char *what) const;

    const op &o_;
    const shapes_by_id &known_;
};

// -- attributes, by their defaults in oneDNN's schema
// ----------------------------------------------

std::string string_attr(const op &o, dg::op::attr name, const char *otherwise);
int64_t s64_attr(const op &o, dg::op::attr name, int64_t otherwise);
bool bool_attr(const op &o, dg::op::attr name, bool otherwise);
const std::vector<int64_t> *list_attr(const op &o, dg::op::attr name);
std::string list_text(const std::vector<int64_t> &values);

bool channels_last(const op &o);
// The axis counted from the front; raises when it is not below `rank`, which must be known.
int axis_attr(const op &o, dg::op::attr name, int64_t otherwise, int rank);

bool one_of(dg::op::kind k, std::initializer_list<dg::op::kind> kinds);
bool is_convolution(dg::op::kind k);
bool is_transposed_convolution(dg::op::kind k);
bool is_pooling(dg::op::kind k);
bool is_interpolation(dg::op::kind k);

}  // namespace ogp
