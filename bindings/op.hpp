// dnnl::graph::op as a record: what was said about the op, from which each graph makes its own.
#pragma once

#include <map>
#include <variant>

#include "logical_tensor.hpp"

namespace ogp {

using attr_value =
        std::variant<int64_t, float, bool, std::string, std::vector<int64_t>, std::vector<float>>;

struct op {
    size_t id = 0;
    dg::op::kind kind = dg::op::kind::LastSymbol;
    std::string name;
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    std::map<dg::op::attr, attr_value> attrs;
    // Set once a graph took a copy: a later change would silently miss that graph.
    bool frozen = false;

    // A new C++ op. oneDNN's op is a shared handle that crashes when two graphs take it, so every
    // graph gets one of its own.
    dg::op cpp() const;

    template <typename T>
    const T *attr(dg::op::attr name) const {
        const auto it = attrs.find(name);
        return it == attrs.end() ? nullptr : std::get_if<T>(&it->second);
    }
};

// "op 3 'conv0' (Convolution)", for messages.
std::string label(const op &o);
std::string repr(const op &o);

}  // namespace ogp
