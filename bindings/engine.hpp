// dnnl::engine, together with the allocator it calls.
#pragma once

#include <atomic>
#include <memory>

#include "allocator.hpp"
#include "common.hpp"
#include "enums.hpp"

namespace ogp {

struct engine {
    // Before `value`, so that it is destroyed after it.
    std::shared_ptr<allocator> allocator_;
    dnnl::engine value;
    size_t index = 0;
    // Whether a partition was compiled for it.
    std::atomic<bool> compiled{false};

    engine() = default;
    engine(const engine &) = delete;
    engine &operator=(const engine &) = delete;
    // oneDNN's cache of compiled partitions knows an engine by its address, and does not keep it
    // alive: a later engine at the same address would be given what was compiled for this one.
    ~engine();

    // The C++ handle; raises when this is a default-constructed engine.
    const dnnl::engine &get() const;
    dnnl::engine::kind kind() const { return get().get_kind(); }
};

using engine_ptr = std::shared_ptr<engine>;

std::string repr(const engine &e);

}  // namespace ogp
