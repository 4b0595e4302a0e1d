// dnnl::graph::logical_tensor as a value: the C struct, always initialised and always checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common.hpp"
#include "enums.hpp"

namespace ogp {

using data_type = dg::logical_tensor::data_type;
using layout_type = dg::logical_tensor::layout_type;
using property_type = dg::logical_tensor::property_type;
using dims = std::vector<int64_t>;

struct logical_tensor {
    dnnl_graph_logical_tensor_t data{};
    bool initialised = false;  // false only for logical_tensor()

    logical_tensor() = default;
    explicit logical_tensor(const dnnl_graph_logical_tensor_t &c) : data(c), initialised(true) {}

    const dnnl_graph_logical_tensor_t &get() const;
    dg::logical_tensor cpp() const { return dg::logical_tensor(get()); }

    size_t id() const { return data.id; }
    int ndims() const { return data.ndims; }
    data_type dtype() const { return static_cast<data_type>(data.data_type); }
    layout_type layout() const { return static_cast<layout_type>(data.layout_type); }
    property_type property() const { return static_cast<property_type>(data.property); }
    bool has_known_dims() const;
    dims shape() const { return {data.dims, data.dims + (data.ndims > 0 ? data.ndims : 0)}; }
    dims strides() const {
        return {data.layout.strides, data.layout.strides + (data.ndims > 0 ? data.ndims : 0)};
    }
};

bool operator==(const logical_tensor &a, const logical_tensor &b);
inline bool operator!=(const logical_tensor &a, const logical_tensor &b) { return !(a == b); }

// "64x1280", "?x64", "scalar", "unknown rank".
std::string shape_text(const dnnl_graph_logical_tensor_t &lt);
// The inside of repr, without the class name.
std::string describe(const logical_tensor &lt);
std::string repr(const logical_tensor &lt);

// Bytes that memory for `lt` must have, from its first to its last element. Unlike
// dnnl_graph_logical_tensor_get_mem_size it is right for strides that overlap, and it raises
// where dims are unknown or the size overflows. Opaque layouts are oneDNN's to measure.
size_t required_bytes(const logical_tensor &lt);

// Remembers that oneDNN handed out this opaque layout for these dims: an id that it did not hand
// out makes the library read out of bounds.
void remember_opaque_layout(const dnnl_graph_logical_tensor_t &lt);

}  // namespace ogp
