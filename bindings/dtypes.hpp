// data_type <-> NumPy and DLPack: the one home of how many bits an element has and what it means.
#pragma once

#include <optional>

#include <pybind11/numpy.h>

#include "logical_tensor.hpp"

namespace ogp {

struct dtype_info {
    data_type type;
    int bits;
    const char *numpy_module;  // "numpy" or "ml_dtypes"
    const char *numpy_name;
    // DLPack's type code and bits; -1 where DLPack has none that we can rely on.
    int dlpack_code;
};

// Raises for undef.
const dtype_info &info_of(data_type type);

// Whether several elements share a byte.
inline bool is_packed(const logical_tensor &lt) { return info_of(lt.dtype()).bits < 8; }

// The NumPy dtype of one stored element. s4 and u4 are stored two to a byte: uint8.
py::dtype numpy_dtype(data_type type);

// The data type of a NumPy dtype, or nothing where oneDNN Graph has no such type.
std::optional<data_type> data_type_of(const py::dtype &dtype);

void init_dtypes(py::module_ &m);

}  // namespace ogp
