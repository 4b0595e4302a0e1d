// dnnl::engine, together with the allocator it calls.
#pragma once

#include <memory>

#include "allocator.hpp"
#include "common.hpp"
#include "enums.hpp"
#include "forked.hpp"

namespace ogp {

struct engine {
    // Before `value`, so that it is destroyed after it.
    std::shared_ptr<allocator> allocator_;
    dnnl::engine value;
    size_t index = 0;

    engine() = default;
    ~engine() { leak_in_child(value); }
    engine(const engine &) = delete;
    engine &operator=(const engine &) = delete;

    // The C++ handle; raises when this is a default-constructed engine.
    const dnnl::engine &get() const;
    dnnl::engine::kind kind() const { return get().get_kind(); }
};

using engine_ptr = std::shared_ptr<engine>;

std::string repr(const engine &e);

}  // namespace ogp
