// dnnl::stream, which keeps its engine alive.
#pragma once

#include "engine.hpp"

namespace ogp {

struct stream {
    engine_ptr engine_;  // oneDNN's stream only has a raw pointer to it
    dnnl::stream value;
    dnnl::stream::flags flags = dnnl::stream::flags::default_flags;

    dnnl::stream &get();
};

using stream_ptr = std::shared_ptr<stream>;

}  // namespace ogp
