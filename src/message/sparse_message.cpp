#include "message/sparse_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "base/bytes.h"
#include "message/checksum.h"
#include "message/rice.h"
#include "message/values.h"

namespace thinwire::message {
namespace {

constexpr std::uint32_t kMagic = 0x50535754;  // "TWSP"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 40;
constexpr std::uint64_t kMaxNumel = std::uint64_t{1} << 32;

// The numbers on the wire.
enum class IndexForm : std::uint8_t { rice = 0, raw = 1, all = 2 };
static_assert(static_cast<int>(IndexCoding::rice) == static_cast<int>(IndexForm::rice));
static_assert(static_cast<int>(IndexCoding::raw) == static_cast<int>(IndexForm::raw));
static_assert(static_cast<int>(ValueCoding::bf16) == 0 && static_cast<int>(ValueCoding::fp32) == 1);

struct Header {
  IndexForm form = IndexForm::rice;
  ValueCoding values = ValueCoding::bf16;
  std::uint8_t rice = 0;
  std::uint64_t step = 0;
  std::uint64_t numel = 0;
  std::uint64_t count = 0;
  std::uint32_t index_words = 0;
};

std::uint64_t raw_words(std::uint64_t count) { return (count + 1) / 2; }

// Of a message with these fields; nothing overflows below 2^32 elements.
std::uint64_t message_bytes(const Header& header) {
  const std::uint64_t values = header.form == IndexForm::all ? header.numel : header.count;
  return kHeaderBytes + std::uint64_t{header.index_words} * rice::kWordBytes +
         values * value_bytes(header.values);
}

void check_numel(std::size_t numel) {
  if (numel > kMaxNumel) {
    throw std::length_error(
        fmt::format("sparse message: {} elements, at most 2^32 have indices", numel));
  }
}

std::uint32_t load_index(const std::byte* indices, std::size_t i) {
  std::uint32_t index;
  std::memcpy(&index, indices + i * sizeof index, sizeof index);
  return index;
}

// Strictly, and below numel.
bool increase(const std::byte* indices, std::size_t count, std::uint64_t numel) {
  if (count == 0) return true;
  std::uint32_t falls = 0;  // not a bool, and no early way out: so it becomes vector code
  for (std::size_t i = 1; i < count; ++i) {
    falls |= static_cast<std::uint32_t>(load_index(indices, i - 1) >= load_index(indices, i));
  }
  return falls == 0 && load_index(indices, count - 1) < numel;
}

void check_entries(const Sparse& entries, std::size_t numel) {
  const auto* indices = reinterpret_cast<const std::byte*>(entries.indices.data());
  if (entries.values.size() != entries.size() || !increase(indices, entries.size(), numel)) {
    throw std::invalid_argument("encode_sparse: the entries are not a sparse vector of numel");
  }
}

// The value that the elements without entry have. -0 is not it, so that it survives.
bool is_absent(float value) { return std::bit_cast<std::uint32_t>(value) == 0; }

// --- Writing.

Header describe(const Sparse& entries, const SparseFormat& format, const SparseAddress& address) {
  Header header;
  header.form = static_cast<IndexForm>(format.index);
  header.values = format.values;
  header.step = address.step;
  header.numel = address.numel;
  header.count = entries.size();
  if (format.index == IndexCoding::rice) {
    header.rice = static_cast<std::uint8_t>(rice::parameter(address.numel, entries.size()));
    header.index_words = static_cast<std::uint32_t>(rice::words(entries.indices, header.rice));
  } else {
    header.index_words = static_cast<std::uint32_t>(raw_words(entries.size()));
  }
  Header dense = header;
  dense.form = IndexForm::all;
  dense.rice = 0;
  dense.index_words = 0;
  if (message_bytes(dense) >= message_bytes(header)) return header;
  dense.count = static_cast<std::uint64_t>(
      std::ranges::count_if(entries.values, [](float value) { return !is_absent(value); }));
  return dense;
}

void put_header(const Header& header, base::ByteWriter& out) {
  out.put(kMagic);
  out.put(std::uint32_t{0});  // the checksum, once there is something to sum
  out.put(kVersion);
  out.put(static_cast<std::uint8_t>(header.form));
  out.put(static_cast<std::uint8_t>(header.values));
  out.put(header.rice);
  out.put(header.index_words);
  out.put(header.step);
  out.put(header.numel);
  out.put(header.count);
}

void put_body(const Sparse& entries, const Header& header, std::byte* body) {
  const std::size_t width = value_bytes(header.values);
  if (header.form == IndexForm::all) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store_values(header.values, Floats(&entries.values[i], 1), body + entries.indices[i] * width);
    }
    return;
  }
  if (header.form == IndexForm::rice) {
    rice::encode(entries.indices, header.rice, body);
  } else if (!entries.indices.empty()) {
    std::memcpy(body, entries.indices.data(), entries.indices.size() * sizeof(std::uint32_t));
  }
  store_values(header.values, entries.values, body + header.index_words * rice::kWordBytes);
}

// --- Reading.

template <class... Parts>
[[noreturn]] void refuse(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw WireError("sparse message: " + fmt::format(format, std::forward<Parts>(parts)...));
}

// Everything that the first bytes alone tell.
Header get_header(Bytes in) {
  base::ByteReader reader(in, "sparse message");
  if (reader.get<std::uint32_t>() != kMagic) refuse("does not begin with its magic number");
  const auto sum = reader.get<std::uint32_t>();
  if (const int version = reader.get<std::uint8_t>(); version != kVersion) {
    refuse("version {}, this program knows {}: run the same version everywhere", version, kVersion);
  }
  Header header;
  header.form = static_cast<IndexForm>(reader.get<std::uint8_t>());
  header.values = static_cast<ValueCoding>(reader.get<std::uint8_t>());
  header.rice = reader.get<std::uint8_t>();
  header.index_words = reader.get<std::uint32_t>();
  header.step = reader.get<std::uint64_t>();
  header.numel = reader.get<std::uint64_t>();
  header.count = reader.get<std::uint64_t>();
  if (header.values > ValueCoding::fp32 || header.form > IndexForm::all ||
      header.numel > kMaxNumel || header.count > header.numel) {
    refuse("its header is damaged");
  }
  if (in.size() != message_bytes(header)) {
    refuse("{} bytes long, its header says {}", in.size(), message_bytes(header));
  }
  if (sum != checksum(in)) refuse("damaged on the way: its checksum is wrong");
  return header;
}

// Is it the message that this receiver waits for?
void check_header(const Header& header, const SparseFormat& format, const SparseAddress& address,
                  std::size_t max_count) {
  if (header.step != address.step) refuse("of step {}, not {}", header.step, address.step);
  if (header.numel != address.numel) {
    refuse("of a vector of {} elements, not {}", header.numel, address.numel);
  }
  if (header.values != format.values ||
      (header.form != IndexForm::all && header.form != static_cast<IndexForm>(format.index))) {
    refuse("in another format than was agreed");
  }
  if (header.count > max_count) {
    refuse("{} entries, at most {} were agreed", header.count, max_count);
  }
  const unsigned rice =
      header.form == IndexForm::rice ? rice::parameter(header.numel, header.count) : 0;
  if (header.rice != rice) refuse("Rice parameter {}, must be {}", header.rice, rice);
  if (header.form == IndexForm::all && header.index_words != 0) {
    refuse("all values, and yet indices");
  }
  if (header.form == IndexForm::raw && header.index_words != raw_words(header.count)) {
    refuse("{} words of indices for {} entries", header.index_words, header.count);
  }
}

void check_raw(Bytes stream, std::size_t count, std::uint64_t numel) {
  if (!increase(stream.data(), count, numel)) {
    refuse("its indices do not increase, or leave the vector");
  }
  if (count % 2 == 1 && load_index(stream.data(), count) != 0) refuse("its padding is not 0");
}

// A dense body: counts what is not 0 first, so that the vectors grow once.
void get_all(Bytes body, const Header& header, Sparse& out) {
  std::uint64_t present = 0;
  for (std::size_t i = 0; i < header.numel; ++i) {
    present += !is_absent(load_value(header.values, body.data(), i));
  }
  if (present != header.count) {
    refuse("{} values that are not 0, its header says {}", present, header.count);
  }
  out.clear();
  out.indices.reserve(present);
  out.values.reserve(present);
  for (std::size_t i = 0; i < header.numel; ++i) {
    const float value = load_value(header.values, body.data(), i);
    if (!is_absent(value)) out.push_back(static_cast<std::uint32_t>(i), value);
  }
}

void get_entries(Bytes body, const Header& header, Sparse& out) {
  const Bytes stream = body.first(header.index_words * rice::kWordBytes);
  const std::byte* values = body.data() + stream.size();
  if (header.form == IndexForm::rice) {
    rice::check(stream, header.rice, header.count, header.numel);
  } else {
    check_raw(stream, header.count, header.numel);
  }
  out.indices.resize(header.count);
  out.values.resize(header.count);
  if (header.form == IndexForm::rice) {
    rice::decode(stream, header.rice, out.indices);
  } else if (header.count > 0) {
    std::memcpy(out.indices.data(), stream.data(), header.count * sizeof(std::uint32_t));
  }
  for (std::size_t i = 0; i < header.count; ++i) {
    out.values[i] = load_value(header.values, values, i);
  }
}

// To nearest, ties to even, but never from finite to infinite: the difference must be a number.
float round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return std::bit_cast<float>((bits | 0x400000) & 0xffff0000);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  const bool overflow = magnitude < 0x7f800000 && (rounded & 0x7fffffff) == 0x7f800000;
  return std::bit_cast<float>(overflow ? rounded - 0x10000 : rounded);
}

}  // namespace

std::size_t sparse_max_bytes(const SparseFormat& format, std::size_t numel, std::size_t count) {
  check_numel(numel);
  Header header;
  header.values = format.values;
  header.numel = numel;
  header.count = std::min(count, numel);
  header.index_words = static_cast<std::uint32_t>(format.index == IndexCoding::rice
                                                      ? rice::max_words(numel, header.count)
                                                      : raw_words(header.count));
  Header dense = header;
  dense.form = IndexForm::all;
  dense.index_words = 0;
  return std::min(message_bytes(header), message_bytes(dense));
}

void round_to_wire(ValueCoding coding, MutFloats values, MutFloats errors) {
  if (coding == ValueCoding::fp32) {
    std::ranges::fill(errors, 0.0f);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float sent = round_to_bf16(values[i]);
    // What is not finite goes as it is; its difference would be NaN.
    const bool finite = (std::bit_cast<std::uint32_t>(sent) & 0x7f800000) != 0x7f800000;
    errors[i] = finite ? values[i] - sent : 0;
    values[i] = sent;
  }
}

void encode_sparse(const Sparse& entries, const SparseFormat& format, const SparseAddress& address,
                   Payload& out) {
  check_numel(address.numel);
  check_entries(entries, address.numel);
  const Header header = describe(entries, format, address);
  const std::size_t begin = out.size();
  const std::size_t end = begin + message_bytes(header);
  base::ByteWriter writer(out);
  put_header(header, writer);
  out.resize(end + rice::kWordBytes);  // the scratch of rice::encode
  put_body(entries, header, out.data() + begin + kHeaderBytes);
  out.resize(end);
  write_checksum(MutBytes(out).subspan(begin));
}

void decode_sparse(Bytes in, const SparseFormat& format, const SparseAddress& address,
                   std::size_t max_count, Sparse& out) {
  const Header header = get_header(in);
  check_header(header, format, address, max_count);
  const Bytes body = in.subspan(kHeaderBytes);
  if (header.form == IndexForm::all) {
    get_all(body, header, out);
  } else {
    get_entries(body, header, out);
  }
}

double index_entropy_bits(std::size_t numel, std::size_t count) {
  const auto log_factorial = [](std::size_t n) {
    int sign = 0;
    return ::lgamma_r(static_cast<double>(n) + 1, &sign);  // std::lgamma writes to a global
  };
  return (log_factorial(numel) - log_factorial(count) - log_factorial(numel - count)) /
         std::numbers::ln2;
}

}  // namespace thinwire::message
