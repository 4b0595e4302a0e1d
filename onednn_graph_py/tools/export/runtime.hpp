// The part that all exported C++ programs share: storing data, and running partitions.
// The program defines the includes, `dnnl_types` (the library's data types by kind), and
// `memory_block` (the memory of a tensor) before it.

// -- data types: numbers are kept as double and stored as oneDNN has them

enum kind { f32, f16, bf16, f8_e5m2, f8_e4m3, s64, s32, s8, u8, s4, u4, boolean };

// Bits of exponent and fraction of the floats.
const int exponents[] = {8, 5, 8, 5, 4}, fractions[] = {23, 10, 7, 2, 3};

bool is_float(kind k) { return k <= f8_e4m3; }
bool is_packed(kind k) { return k == s4 || k == u4; }

size_t size_of(kind k) {
    const size_t sizes[] = {4, 2, 2, 1, 1, 8, 4, 1, 1, 1, 1, 1};
    return sizes[k];
}

uint64_t encode(double x, kind k) {
    if (!is_float(k)) return static_cast<uint64_t>(static_cast<int64_t>(x));
    const int e = exponents[k], f = fractions[k], bias = (1 << (e - 1)) - 1;
    const uint64_t sign = std::signbit(x) ? uint64_t(1) << (e + f) : 0;
    const double a = std::fabs(x);
    if (std::isnan(x)) return (((uint64_t(1) << e) - 1) << f) | (uint64_t(1) << (f - 1));
    if (a == 0) return sign;
    const int power = std::isinf(a) ? bias + 1 : std::max(std::ilogb(a), 1 - bias);
    // Rounds to nearest even; what carries into the exponent is right as it is.
    const double steps = std::isinf(a) ? 0 : std::nearbyint(std::ldexp(a, f - power));
    const uint64_t bits =
            static_cast<uint64_t>(steps) + (static_cast<uint64_t>(power + bias - 1) << f);
    if (std::isinf(a)) return sign | (((uint64_t(1) << e) - 1) << f);
    return sign | bits;
}

double decode(uint64_t bits, kind k) {
    switch (k) {
        case s64:
            return static_cast<double>(static_cast<int64_t>(bits));
        case s32:
            return static_cast<int32_t>(bits);
        case s8:
            return static_cast<int8_t>(bits);
        case u8:
        case boolean:
            return static_cast<uint8_t>(bits);
        case s4:
            return static_cast<int>((bits & 15) ^ 8) - 8;
        case u4:
            return static_cast<double>(bits & 15);
        default:
            break;
    }
    const int e = exponents[k], f = fractions[k], bias = (1 << (e - 1)) - 1;
    const uint64_t fraction = bits & ((uint64_t(1) << f) - 1);
    const int power = static_cast<int>((bits >> f) & ((uint64_t(1) << e) - 1));
    const double sign = (bits >> (e + f)) & 1 ? -1 : 1;
    const bool last = power == (1 << e) - 1;
    if (k == f8_e4m3 ? last && fraction == 7 : last && fraction != 0) return NAN;
    if (last && k != f8_e4m3) return sign * INFINITY;
    if (power == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - f);
    return sign * std::ldexp(static_cast<double>(fraction + (uint64_t(1) << f)), power - bias - f);
}

// -- tensors

struct tensor_data {
    size_t id;
    const char *name;
    kind type;
    std::vector<int64_t> dims, strides;
    bool constant;
    memory_block memory;

    tensor_data(size_t id, const char *name, kind type, std::vector<int64_t> dims,
            std::vector<int64_t> strides, bool constant)
        : id(id), name(name), type(type), dims(dims), strides(strides), constant(constant) {}

    size_t count() const {
        size_t n = 1;
        for (int64_t d : dims) n *= static_cast<size_t>(d);
        return n;
    }
    // Where an element lies, in elements, from its number in row-major order.
    size_t place(size_t i) const {
        size_t at = 0;
        for (size_t d = dims.size(); d-- > 0;) {
            at += i % static_cast<size_t>(dims[d]) * static_cast<size_t>(strides[d]);
            i /= static_cast<size_t>(dims[d]);
        }
        return at;
    }
    void allocate() {
        const size_t n = count();
        const size_t elements = n ? place(n - 1) + 1 : 0;
        memory.take(std::max<size_t>(is_packed(type) ? (elements + 1) / 2 : elements, 1)
                        * size_of(type),
                0);
    }
    void *data() { return memory.data(); }
    void set(size_t i, double x) {
        const uint64_t bits = encode(x, type);
        const size_t at = place(i);
        auto *bytes = static_cast<unsigned char *>(data());
        if (is_packed(type))
            bytes[at / 2] |= static_cast<unsigned char>((bits & 15) << at % 2 * 4);
        else
            std::memcpy(bytes + at * size_of(type), &bits, size_of(type));
    }
    double get(size_t i) {
        uint64_t bits = 0;
        const size_t at = place(i);
        const auto *bytes = static_cast<const unsigned char *>(data());
        if (is_packed(type))
            bits = bytes[at / 2] >> at % 2 * 4;
        else
            std::memcpy(&bits, bytes + at * size_of(type), size_of(type));
        return decode(bits, type);
    }
    logical_tensor described() const {
        const auto property = constant ? logical_tensor::property_type::constant
                                       : logical_tensor::property_type::variable;
        if (dims.empty())
            return logical_tensor(
                    id, dnnl_types[type], dims, logical_tensor::layout_type::strided, property);
        return logical_tensor(id, dnnl_types[type], dims, strides, property);
    }
};

// -- what inputs are filled with: SplitMix64, so that Python makes the same numbers

enum fill_kind { uniform, whole, power_of_two, mostly_true, mask };

[[maybe_unused]] void fill(tensor_data &t, fill_kind how, double low, double high, uint64_t seed) {
    t.allocate();
    const size_t n = t.count(), rank = t.dims.size();
    const uint64_t start = (seed << 32 ^ t.id) * 0xD1342543DE82EF95u;
    for (size_t i = 0; i < n; ++i) {
        uint64_t z = start + (i + 1) * 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        const size_t columns = rank ? static_cast<size_t>(t.dims[rank - 1]) : 1;
        const size_t rows = rank > 1 ? static_cast<size_t>(t.dims[rank - 2]) : 1;
        const size_t column = i % columns, row = i / columns % rows;
        double x = 0;
        if (how == uniform) {
            const double share = static_cast<double>(z >> 40) / 16777216.0;
            x = static_cast<float>(low + (high - low) * share);
        } else if (how == mostly_true) {
            x = (z >> 33) % 4 != 0 || (rank && column == 0);
        } else if (how == mask) {
            // Each further head or batch hides one key more.
            const size_t fewer = i / columns / rows % std::max<size_t>(columns / 2, 1);
            const size_t wider = columns > rows ? columns - rows : 0;
            const size_t first = rows == 1 ? columns - columns / 4 : row + wider + 1;
            const size_t kept = first > fewer ? first - fewer : 1;
            x = rank > 1 && column >= kept ? -1e4 : 0;
        } else {
            x = static_cast<double>((z >> 33) % static_cast<uint64_t>(high - low + 1)) + low;
            if (how == power_of_two) x = std::exp2(x);
        }
        t.set(i, x);
    }
}

[[maybe_unused]] void copy(tensor_data &t, const unsigned char *values, size_t bytes) {
    t.allocate();
    std::memcpy(t.data(), values, bytes);
}

void print(const char *name, tensor_data &t) {
    double sum = 0, magnitude = 0, weighted = 0;
    const size_t n = t.count();
    for (size_t i = 0; i < n; ++i) {
        const double x = t.get(i);
        sum += x;
        magnitude += std::fabs(x);
        weighted += static_cast<double>(i % 7 + 1) * x;
    }
    const auto number = [](double x, int digits) {
        char text[64];
        std::snprintf(text, sizeof text, "%.*g", digits, x);
        return std::isnan(x) ? std::string("nan") : std::string(text);
    };
    std::printf("%s: sum %s, magnitude %s, weighted %s, first", name, number(sum, 10).c_str(),
            number(magnitude, 10).c_str(), number(weighted, 10).c_str());
    for (size_t i = 0; i < std::min<size_t>(n, 4); ++i)
        std::printf(" %s", number(t.get(i), 9).c_str());
    std::printf("\n");
}

// Compiles and runs all partitions, each when what it reads is there; false if one can't be. Each
// is called so many times, as later calls may differ from the first.
bool run(graph &g, std::vector<tensor_data> &tensors, engine::kind where, int calls) {
    engine eng(where, 0);
    stream strm(eng);
    std::vector<partition> waiting = g.get_partitions();
    std::printf("partitions: %zu\n", waiting.size());
    while (!waiting.empty()) {
        const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const partition &p) {
            const auto ports = p.get_input_ports();
            return std::all_of(ports.begin(), ports.end(), [&](const logical_tensor &port) {
                return !tensors[port.get_id()].memory.empty();
            });
        });
        if (ready == waiting.end()) {
            std::fprintf(stderr, "partitions wait for each other\n");
            return false;
        }
        partition part = *ready;
        waiting.erase(ready);
        if (part.get_output_ports().empty()) continue;  // End
        if (!part.is_supported()) {
            std::fprintf(stderr, "oneDNN does not support partition %zu\n", part.get_id());
            return false;
        }
        std::vector<logical_tensor> inputs, outputs;
        std::vector<tensor> sources;
        std::vector<size_t> seen;
        for (const auto &port : part.get_input_ports()) {
            if (std::find(seen.begin(), seen.end(), port.get_id()) != seen.end()) continue;
            seen.push_back(port.get_id());
            auto &t = tensors[port.get_id()];
            inputs.push_back(t.described());
            sources.emplace_back(inputs.back(), eng, t.data());
        }
        for (const auto &port : part.get_output_ports()) {
            tensors[port.get_id()].allocate();
            outputs.push_back(tensors[port.get_id()].described());
        }
        compiled_partition compiled = part.compile(inputs, outputs, eng);
        for (int call = 0; call < calls; ++call) {
            std::vector<tensor> results;
            for (size_t i = 0; i < outputs.size(); ++i) {
                auto &t = tensors[outputs[i].get_id()];
                // Other memory at each call, with bytes that show what is not written.
                t.memory.take(t.memory.size(), 0xFF);
                results.emplace_back(outputs[i], eng, t.data());
            }
            compiled.execute(strm, sources, results);
            strm.wait();
        }
    }
    return true;
}
