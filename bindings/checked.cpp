#include "checked.hpp"

#include <unordered_set>

namespace ogp {
namespace {

constexpr size_t most_bytes = size_t{4} << 20;

// The GIL guards both.
std::unordered_set<std::string> &keys() {
    static auto &only = *new std::unordered_set<std::string>;
    return only;
}
size_t bytes_held = 0;

}  // namespace

void check_key::add(const std::string &text) {
    add(static_cast<int64_t>(text.size()));
    append(text.data(), text.size());
}

void check_key::add(const logical_tensor &lt) {
    add(numbers_.emplace(lt.id(), static_cast<int64_t>(numbers_.size())).first->second);
    add(static_cast<int64_t>(lt.dtype()));
    add(static_cast<int64_t>(lt.layout()));
    add(lt.ndims());
    if (lt.ndims() <= 0) return;
    const size_t size = sizeof(int64_t) * static_cast<size_t>(lt.ndims());
    append(lt.data.dims, size);
    if (lt.layout() == layout_type::strided) append(lt.data.layout.strides, size);
}

void check_key::add(const std::vector<logical_tensor> &lts) {
    add(static_cast<int64_t>(lts.size()));
    for (const auto &lt : lts) add(lt);
}

void check_key::add(const attr_value &value) {
    add(static_cast<int64_t>(value.index()));
    if (const auto *text = std::get_if<std::string>(&value)) return add(*text);
    if (const auto *integer = std::get_if<int64_t>(&value)) return add(*integer);
    if (const auto *flag = std::get_if<bool>(&value)) return add(int64_t{*flag});
    if (const auto *number = std::get_if<float>(&value)) return append(number, sizeof *number);
    const auto add_list = [&](const auto &list) {
        add(static_cast<int64_t>(list.size()));
        append(list.data(), list.size() * sizeof list[0]);
    };
    if (const auto *integers = std::get_if<std::vector<int64_t>>(&value))
        return add_list(*integers);
    add_list(std::get<std::vector<float>>(value));
}

void check_key::add(const op &o) {
    add(static_cast<int64_t>(o.kind));
    add(o.inputs);
    add(o.outputs);
    add(static_cast<int64_t>(o.attrs.size()));
    for (const auto &[name, value] : o.attrs) {
        add(static_cast<int64_t>(name));
        add(value);
    }
}

bool was_checked(const check_key &key) { return keys().count(key.bytes()) != 0; }

void remember_checked(const check_key &key) {
    if (bytes_held > most_bytes) {
        keys().clear();
        bytes_held = 0;
    }
    if (keys().insert(key.bytes()).second) bytes_held += key.bytes().size();
}

}  // namespace ogp
