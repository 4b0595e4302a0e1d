#include "dtypes.hpp"

#include <vector>

#include "errors.hpp"

namespace ogp {
namespace {

// DLPack type codes (dlpack.h, DLDataTypeCode).
constexpr int dl_int = 0, dl_uint = 1, dl_float = 2, dl_bfloat = 4, dl_bool = 6, dl_f8_e4m3fn = 10,
              dl_f8_e5m2 = 12, dl_none = -1;

const std::vector<dtype_info> &infos() {
    static const std::vector<dtype_info> all{
            {data_type::f32, 32, "numpy", "float32", dl_float},
            {data_type::f16, 16, "numpy", "float16", dl_float},
            {data_type::bf16, 16, "ml_dtypes", "bfloat16", dl_bfloat},
            {data_type::s32, 32, "numpy", "int32", dl_int},
            {data_type::s8, 8, "numpy", "int8", dl_int},
            {data_type::u8, 8, "numpy", "uint8", dl_uint},
            {data_type::boolean, 8, "numpy", "bool_", dl_bool},
            {data_type::f8_e5m2, 8, "ml_dtypes", "float8_e5m2", dl_f8_e5m2},
            {data_type::f8_e4m3, 8, "ml_dtypes", "float8_e4m3fn", dl_f8_e4m3fn},
            {data_type::s4, 4, "ml_dtypes", "int4", dl_none},
            {data_type::u4, 4, "ml_dtypes", "uint4", dl_none},
#if OGP_ONEDNN_AT_LEAST(3, 12)
            {data_type::s64, 64, "numpy", "int64", dl_int},
#endif
    };
    return all;
}

py::dtype element_dtype(const dtype_info &info) {
    return py::dtype::from_args(py::module_::import(info.numpy_module).attr(info.numpy_name));
}

}  // namespace

const dtype_info &info_of(data_type type) {
    for (const auto &info : infos())
        if (info.type == type) return info;
    raise_invalid_data_type("data type " + enum_name(type) + " has no elements");
}

py::dtype numpy_dtype(data_type type) {
    const auto &info = info_of(type);
    return info.bits < 8 ? py::dtype("uint8") : element_dtype(info);
}

std::optional<data_type> data_type_of(const py::dtype &dtype) {
    for (const auto &info : infos())
        if (element_dtype(info).equal(dtype)) return info.type;
    return std::nullopt;
}

void init_dtypes(py::module_ &m) {
    m.def(
            "numpy_dtype", [](enum_arg<data_type> type) { return element_dtype(info_of(type)); },
            py::arg("data_type"),
            "NumPy dtype of a data type, from NumPy or ml_dtypes.\n\n"
            "Returns\n-------\nnumpy.dtype\n"
            "    For ``s4`` and ``u4`` ml_dtypes' int4 and uint4, which store one element a byte;\n"
            "    tensors hold two a byte, see `onednn_graph_py.dtypes.pack_int4`.");
    m.def(
            "data_type_of",
            [](py::object dtype) {
                const auto np = py::dtype::from_args(dtype);
                const auto type = data_type_of(np);
                if (!type)
                    raise_invalid_data_type("oneDNN Graph has no data type for NumPy's "
                            + py::str(np).cast<std::string>());
                return *type;
            },
            py::arg("dtype"),
            "Data type of a NumPy dtype or anything that ``numpy.dtype`` takes.\n\n"
            "Raises\n------\nInvalidDataTypeError\n    oneDNN Graph has no such type.");
}

}  // namespace ogp
