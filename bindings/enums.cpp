#include "enums.hpp"

#include <algorithm>
#include <numeric>

namespace ogp {

template <>
const enum_table<dg::status> &table_of() {
    using E = dg::status;
    static const enum_table<E> table{"status",
            {
                    {"success", E::success},
                    {"out_of_memory", E::out_of_memory},
                    {"invalid_arguments", E::invalid_arguments},
                    {"unimplemented", E::unimplemented},
                    {"last_impl_reached", E::last_impl_reached},
                    {"runtime_error", E::runtime_error},
                    {"not_required", E::not_required},
                    {"invalid_graph", E::invalid_graph},
                    {"invalid_graph_op", E::invalid_graph_op},
                    {"invalid_shape", E::invalid_shape},
                    {"invalid_data_type", E::invalid_data_type},
            },
            {}};
    return table;
}

template <>
const enum_table<dnnl::engine::kind> &table_of() {
    using E = dnnl::engine::kind;
    static const enum_table<E> table{"engine kind",
            {
                    {"any", E::any},
                    {"cpu", E::cpu},
                    {"gpu", E::gpu},
            },
            {}};
    return table;
}

template <>
const enum_table<dnnl::stream::flags> &table_of() {
    using E = dnnl::stream::flags;
    static const enum_table<E> table{"stream flag",
            {
                    {"in_order", E::in_order},
                    {"out_of_order", E::out_of_order},
                    {"default_flags", E::default_flags},
            },
            {}};
    return table;
}

template <>
const enum_table<dg::logical_tensor::data_type> &table_of() {
    using E = dg::logical_tensor::data_type;
    static const enum_table<E> table{"data type",
            {
                    {"undef", E::undef},
                    {"f16", E::f16},
                    {"bf16", E::bf16},
                    {"f32", E::f32},
                    {"s32", E::s32},
                    {"s8", E::s8},
                    {"u8", E::u8},
                    {"boolean", E::boolean},
                    {"f8_e5m2", E::f8_e5m2},
                    {"f8_e4m3", E::f8_e4m3},
                    {"s4", E::s4},
                    {"u4", E::u4},
#if OGP_ONEDNN_AT_LEAST(3, 12)
                    {"s64", E::s64},
#endif
            },
            {{"s64", "3.12"}}};
    return table;
}

template <>
const enum_table<dg::logical_tensor::layout_type> &table_of() {
    using E = dg::logical_tensor::layout_type;
    static const enum_table<E> table{"layout type",
            {
                    {"undef", E::undef},
                    {"any", E::any},
                    {"strided", E::strided},
                    {"opaque", E::opaque},
            },
            {}};
    return table;
}

template <>
const enum_table<dg::logical_tensor::property_type> &table_of() {
    using E = dg::logical_tensor::property_type;
    static const enum_table<E> table{"property type",
            {
                    {"undef", E::undef},
                    {"variable", E::variable},
                    {"constant", E::constant},
#if OGP_ONEDNN_AT_LEAST(3, 9)
                    {"host_scalar", E::host_scalar},
#endif
            },
            {{"host_scalar", "3.9"}}};
    return table;
}

template <>
const enum_table<dg::op::kind> &table_of() {
    using E = dg::op::kind;
    static const enum_table<E> table{"op kind",
            {
                    {"Abs", E::Abs},
                    {"AbsBackward", E::AbsBackward},
                    {"Add", E::Add},
                    {"AvgPool", E::AvgPool},
                    {"AvgPoolBackward", E::AvgPoolBackward},
                    {"BatchNormForwardTraining", E::BatchNormForwardTraining},
                    {"BatchNormInference", E::BatchNormInference},
                    {"BatchNormTrainingBackward", E::BatchNormTrainingBackward},
                    {"BiasAdd", E::BiasAdd},
                    {"BiasAddBackward", E::BiasAddBackward},
                    {"Clamp", E::Clamp},
                    {"ClampBackward", E::ClampBackward},
                    {"Concat", E::Concat},
                    {"Convolution", E::Convolution},
                    {"ConvolutionBackwardData", E::ConvolutionBackwardData},
                    {"ConvolutionBackwardWeights", E::ConvolutionBackwardWeights},
                    {"ConvTranspose", E::ConvTranspose},
                    {"ConvTransposeBackwardData", E::ConvTransposeBackwardData},
                    {"ConvTransposeBackwardWeights", E::ConvTransposeBackwardWeights},
                    {"Dequantize", E::Dequantize},
                    {"Divide", E::Divide},
                    {"DynamicDequantize", E::DynamicDequantize},
                    {"DynamicQuantize", E::DynamicQuantize},
                    {"Elu", E::Elu},
                    {"EluBackward", E::EluBackward},
                    {"End", E::End},
                    {"Exp", E::Exp},
                    {"GELU", E::GELU},
                    {"GELUBackward", E::GELUBackward},
                    {"GroupNorm", E::GroupNorm},
                    {"HardSigmoid", E::HardSigmoid},
                    {"HardSigmoidBackward", E::HardSigmoidBackward},
                    {"HardSwish", E::HardSwish},
                    {"HardSwishBackward", E::HardSwishBackward},
                    {"Interpolate", E::Interpolate},
                    {"InterpolateBackward", E::InterpolateBackward},
                    {"LayerNorm", E::LayerNorm},
                    {"LayerNormBackward", E::LayerNormBackward},
                    {"LeakyReLU", E::LeakyReLU},
                    {"Log", E::Log},
                    {"LogSoftmax", E::LogSoftmax},
                    {"LogSoftmaxBackward", E::LogSoftmaxBackward},
                    {"MatMul", E::MatMul},
                    {"Maximum", E::Maximum},
                    {"MaxPool", E::MaxPool},
                    {"MaxPoolBackward", E::MaxPoolBackward},
                    {"Minimum", E::Minimum},
                    {"Mish", E::Mish},
                    {"MishBackward", E::MishBackward},
                    {"Multiply", E::Multiply},
                    {"Pow", E::Pow},
                    {"PReLU", E::PReLU},
                    {"PReLUBackward", E::PReLUBackward},
                    {"Quantize", E::Quantize},
                    {"Reciprocal", E::Reciprocal},
                    {"ReduceL1", E::ReduceL1},
                    {"ReduceL2", E::ReduceL2},
                    {"ReduceMax", E::ReduceMax},
                    {"ReduceMean", E::ReduceMean},
                    {"ReduceMin", E::ReduceMin},
                    {"ReduceProd", E::ReduceProd},
                    {"ReduceSum", E::ReduceSum},
                    {"ReLU", E::ReLU},
                    {"ReLUBackward", E::ReLUBackward},
                    {"Reorder", E::Reorder},
                    {"Round", E::Round},
                    {"Select", E::Select},
                    {"Sigmoid", E::Sigmoid},
                    {"SigmoidBackward", E::SigmoidBackward},
                    {"SoftMax", E::SoftMax},
                    {"SoftMaxBackward", E::SoftMaxBackward},
                    {"SoftPlus", E::SoftPlus},
                    {"SoftPlusBackward", E::SoftPlusBackward},
                    {"Sqrt", E::Sqrt},
                    {"SqrtBackward", E::SqrtBackward},
                    {"Square", E::Square},
                    {"SquaredDifference", E::SquaredDifference},
                    {"StaticReshape", E::StaticReshape},
                    {"StaticTranspose", E::StaticTranspose},
                    {"Subtract", E::Subtract},
                    {"Tanh", E::Tanh},
                    {"TanhBackward", E::TanhBackward},
                    {"TypeCast", E::TypeCast},
                    {"Wildcard", E::Wildcard},
                    {"GenIndex", E::GenIndex},
                    {"GreaterEqual", E::GreaterEqual},
                    {"LastSymbol", E::LastSymbol},
#if OGP_ONEDNN_AT_LEAST(3, 11)
                    {"RMSNorm", E::RMSNorm},
#endif
#if OGP_ONEDNN_AT_LEAST(3, 12)
                    {"Dropout", E::Dropout},
#endif
            },
            {{"RMSNorm", "3.11"}, {"Dropout", "3.12"}}};
    return table;
}

template <>
const enum_table<dg::op::attr> &table_of() {
    using E = dg::op::attr;
    static const enum_table<E> table{"op attribute",
            {
                    {"undef", E::undef},
                    {"alpha", E::alpha},
                    {"beta", E::beta},
                    {"epsilon", E::epsilon},
                    {"max", E::max},
                    {"min", E::min},
                    {"momentum", E::momentum},
                    {"scales", E::scales},
                    {"axis", E::axis},
                    {"begin_norm_axis", E::begin_norm_axis},
                    {"groups", E::groups},
                    {"axes", E::axes},
                    {"dilations", E::dilations},
                    {"dst_shape", E::dst_shape},
                    {"kernel", E::kernel},
                    {"order", E::order},
                    {"output_padding", E::output_padding},
                    {"pads_begin", E::pads_begin},
                    {"pads_end", E::pads_end},
                    {"shape", E::shape},
                    {"sizes", E::sizes},
                    {"src_shape", E::src_shape},
                    {"strides", E::strides},
                    {"weights_shape", E::weights_shape},
                    {"zps", E::zps},
                    {"group_shape", E::group_shape},
                    {"exclude_pad", E::exclude_pad},
                    {"keep_dims", E::keep_dims},
                    {"keep_stats", E::keep_stats},
                    {"per_channel_broadcast", E::per_channel_broadcast},
                    {"special_zero", E::special_zero},
                    {"transpose_a", E::transpose_a},
                    {"transpose_b", E::transpose_b},
                    {"use_affine", E::use_affine},
                    {"use_dst", E::use_dst},
                    {"auto_broadcast", E::auto_broadcast},
                    {"auto_pad", E::auto_pad},
                    {"coordinate_transformation_mode", E::coordinate_transformation_mode},
                    {"data_format", E::data_format},
                    {"mode", E::mode},
                    {"qtype", E::qtype},
                    {"rounding_type", E::rounding_type},
                    {"weights_format", E::weights_format},
                    {"end", E::end},
#if OGP_ONEDNN_AT_LEAST(3, 10)
                    {"accumulation_mode", E::accumulation_mode},
#endif
            },
            {{"accumulation_mode", "3.10"}}};
    return table;
}

template <>
const enum_table<dg::partition::policy> &table_of() {
    using E = dg::partition::policy;
    static const enum_table<E> table{"partition policy",
            {
                    {"fusion", E::fusion},
                    {"debug", E::debug},
            },
            {}};
    return table;
}

template <>
const enum_table<dnnl::fpmath_mode> &table_of() {
    using E = dnnl::fpmath_mode;
    static const enum_table<E> table{"floating-point math mode",
            {
                    {"strict", E::strict},
                    {"bf16", E::bf16},
                    {"f16", E::f16},
                    {"tf32", E::tf32},
                    {"any", E::any},
            },
            {}};
    return table;
}

template <>
const enum_table<dnnl::accumulation_mode> &table_of() {
    using E = dnnl::accumulation_mode;
    static const enum_table<E> table{"accumulation mode",
            {
                    {"strict", E::strict},
                    {"relaxed", E::relaxed},
                    {"any", E::any},
                    {"s32", E::s32},
                    {"f32", E::f32},
                    {"f16", E::f16},
            },
            {}};
    return table;
}

template <>
const enum_table<dnnl::cpu_isa> &table_of() {
    using E = dnnl::cpu_isa;
    static const enum_table<E> table{"CPU ISA",
            {
                    {"isa_default", E::isa_default},
                    {"sse41", E::sse41},
                    {"avx", E::avx},
                    {"avx2", E::avx2},
                    {"avx2_vnni", E::avx2_vnni},
                    {"avx2_vnni_2", E::avx2_vnni_2},
                    {"avx512_core", E::avx512_core},
                    {"avx512_core_vnni", E::avx512_core_vnni},
                    {"avx512_core_bf16", E::avx512_core_bf16},
                    {"avx10_1_512", E::avx10_1_512},
                    {"avx512_core_fp16", E::avx512_core_fp16},
                    {"avx10_1_512_amx", E::avx10_1_512_amx},
                    {"avx512_core_amx", E::avx512_core_amx},
                    {"avx10_1_512_amx_fp16", E::avx10_1_512_amx_fp16},
                    {"avx512_core_amx_fp16", E::avx512_core_amx_fp16},
#if OGP_ONEDNN_AT_LEAST(3, 9)
                    {"avx10_2_512", E::avx10_2_512},
                    {"avx10_2_512_amx_2", E::avx10_2_512_amx_2},
#endif
#if OGP_ONEDNN_AT_LEAST(3, 12)
                    {"avx10_2", E::avx10_2},
                    {"avx10_2_amx_2", E::avx10_2_amx_2},
#endif
            },
            {{"avx10_2_512", "3.9"}, {"avx10_2_512_amx_2", "3.9"}, {"avx10_2", "3.12"},
                    {"avx10_2_amx_2", "3.12"}}};
    return table;
}

template <>
const enum_table<dnnl::cpu_isa_hints> &table_of() {
    using E = dnnl::cpu_isa_hints;
    static const enum_table<E> table{"CPU ISA hint",
            {
                    {"no_hints", E::no_hints},
                    {"prefer_ymm", E::prefer_ymm},
            },
            {}};
    return table;
}

#if OGP_ONEDNN_AT_LEAST(3, 11)
template <>
const enum_table<dg::graph_dump_mode> &table_of() {
    using E = dg::graph_dump_mode;
    static const enum_table<E> table{"graph dump mode",
            {
                    {"none", E::none},
                    {"subgraph", E::subgraph},
                    {"graph", E::graph},
            },
            {}};
    return table;
}
#endif

std::string nearest_name(const std::string &given, const std::vector<std::string> &names) {
    const auto lower = [](std::string s) {
        std::transform(
                s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
        return s;
    };
    // Levenshtein distance, blind to case: the usual slips are a letter or the case.
    const auto distance = [](const std::string &a, const std::string &b) {
        std::vector<size_t> row(b.size() + 1);
        std::iota(row.begin(), row.end(), size_t{0});
        for (size_t i = 0; i < a.size(); ++i) {
            size_t diagonal = row[0]++;
            for (size_t j = 0; j < b.size(); ++j) {
                const size_t above = row[j + 1];
                row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
                diagonal = above;
            }
        }
        return row.back();
    };
    const std::string wanted = lower(given.substr(0, 64));
    std::string best;
    size_t best_distance = std::max<size_t>(1, wanted.size() / 3) + 1;
    for (const auto &name : names) {
        const size_t d = distance(wanted, lower(name));
        if (d < best_distance) {
            best_distance = d;
            best = name;
        }
    }
    return best;
}

void init_enums(py::module_ &m) {
    define_enum<dg::status>(
            m, "status", plain_enum, "Outcome of a oneDNN call. Mirrors ``dnnl::graph::status``.");
    define_enum<dnnl::fpmath_mode>(m, "fpmath_mode", plain_enum,
            "Which lower precisions may be used inside f32 computations.\n\n"
            "Mirrors ``dnnl::fpmath_mode``; oneDNN page: Primitive Attributes, floating-point math mode.");
    define_enum<dnnl::accumulation_mode>(m, "accumulation_mode", plain_enum,
            "Precision of accumulation. Mirrors ``dnnl::accumulation_mode``.\n\n"
            "oneDNN page: Primitive Attributes, accumulation mode.");
    define_enum<dnnl::cpu_isa>(m, "cpu_isa", open_enum,
            "Instruction sets that oneDNN dispatches to. Mirrors ``dnnl::cpu_isa``.\n\n"
            "A number that has no name here is named ``unknown(0x...)``.\n\n"
            "oneDNN page: CPU Dispatcher Control.");
    define_enum<dnnl::cpu_isa_hints>(m, "cpu_isa_hints", plain_enum,
            "Hints for the CPU dispatcher. Mirrors ``dnnl::cpu_isa_hints``.");
#if OGP_ONEDNN_AT_LEAST(3, 11)
    define_enum<dg::graph_dump_mode>(m, "graph_dump_mode", flag_enum,
            "What oneDNN writes as graph JSON; combine with ``|``. Mirrors\n"
            "``dnnl::graph::graph_dump_mode`` (oneDNN 3.11).");
#endif
}

}  // namespace ogp
