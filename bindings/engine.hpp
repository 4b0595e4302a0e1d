// dnnl::engine, together with the allocator it calls.
#pragma once

#include <memory>
#include <vector>

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
    ~engine() {
        for (dnnl::stream &idle : idle_streams) leak_in_child(idle);
        leak_in_child(value);
    }
    engine(const engine &) = delete;
    engine &operator=(const engine &) = delete;

    // The C++ handle; raises when this is a default-constructed engine.
    const dnnl::engine &get() const;
    dnnl::engine::kind kind() const { return get().get_kind(); }

    // In-order streams that nobody uses any more, for who needs one next: SYCL keeps 11 kB of each
    // stream that ends (3.13.2). With the GIL. What is taken is empty if there is none.
    dnnl::stream take_stream();
    void give_stream(dnnl::stream &&given) noexcept;

private:
    // After `value`, so that they are destroyed before it.
    std::vector<dnnl::stream> idle_streams;
};

using engine_ptr = std::shared_ptr<engine>;

std::string repr(const engine &e);

}  // namespace ogp
