// Running a compiled partition: the checks, the library call, and the call bound beforehand.
#pragma once

#include "compiled_partition.hpp"
#include "stream.hpp"
#include "tensor.hpp"

namespace ogp {

// Raises unless the tensors are what `cp` was compiled for, writable where they are written, and
// not overlapping where that would change the result; then runs without the GIL.
void execute(compiled_partition &cp, stream &s, py::handle inputs, py::handle outputs,
        py::handle scratchpad);

// The same, checked now; the object it returns runs when called.
py::object bind(py::object cp, py::object s, const py::object &inputs, const py::object &outputs,
        const py::object &scratchpad);

// Seconds for `count` calls from C++, as a program without Python would make them.
double time_execute(compiled_partition &cp, stream &s, const py::object &inputs,
        const py::object &outputs, size_t count);

}  // namespace ogp
