// The DLPack ABI (data-apis.org, version 1.0): the structures that array libraries exchange.
#pragma once

#include <cstdint>

namespace ogp::dlpack {

constexpr int32_t device_cpu = 1;
constexpr int32_t device_sycl = 14;  // called oneAPI there
constexpr uint64_t flag_read_only = 1;

struct device {
    int32_t type;
    int32_t id;
};

struct data_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct tensor {
    void *data;
    dlpack::device device;
    int32_t ndim;
    data_type dtype;
    int64_t *shape;
    int64_t *strides;  // in elements; null for row-major
    uint64_t byte_offset;
};

struct managed {
    tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(managed *);
};

struct version {
    uint32_t major;
    uint32_t minor;
};

struct managed_versioned {
    dlpack::version version;
    void *manager_ctx;
    void (*deleter)(managed_versioned *);
    uint64_t flags;
    tensor dl_tensor;
};

}  // namespace ogp::dlpack
