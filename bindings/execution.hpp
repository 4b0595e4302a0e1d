// Running a compiled partition: the checks, the library call, and the call bound beforehand.
#pragma once

#include "compiled_partition.hpp"
#include "stream.hpp"
#include "tensor.hpp"

namespace ogp {

// Seconds for `count` calls from C++, as a program without Python would make them.
double time_execute(compiled_partition &cp, stream &s, const py::object &inputs,
        const py::object &outputs, size_t count);

}  // namespace ogp
