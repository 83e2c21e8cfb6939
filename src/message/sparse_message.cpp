#include "message/sparse_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <stdexcept>

#include "base/bytes.h"
#include "message/checksum.h"
#include "message/header_check.h"
#include "message/rice.h"
#include "message/values.h"

namespace thinwire::message {
namespace {

constexpr std::uint32_t kMagic = 0x50535754;  // "TWSP"
constexpr std::uint8_t kVersion = 2;          // 1 had no int5
constexpr HeaderCheck kCheck{"sparse message", kMagic, kVersion};
constexpr std::size_t kHeaderBytes = 40;
constexpr std::uint64_t kMaxNumel = std::uint64_t{1} << 32;

// The numbers on the wire. 1 meant indices of 32 bits each, which no sender writes any more.
enum class IndexForm : std::uint8_t { rice = 0, all = 2 };
static_assert(static_cast<int>(ValueCoding::bf16) == 0 &&
              static_cast<int>(ValueCoding::fp32) == 1 && static_cast<int>(ValueCoding::int5) == 2);

struct Header {
  IndexForm form = IndexForm::rice;
  ValueCoding values = ValueCoding::bf16;
  std::uint8_t rice = 0;
  std::uint64_t step = 0;
  std::uint64_t numel = 0;
  std::uint64_t count = 0;
  std::uint32_t index_words = 0;
};

// Returns the length of a message with these fields. Nothing overflows up to 2^32 elements.
std::uint64_t message_bytes(const Header& header) {
  const std::uint64_t values = header.form == IndexForm::all ? header.numel : header.count;
  return kHeaderBytes + std::uint64_t{header.index_words} * rice::kWordBytes +
         values_bytes(header.values, values);
}

void check_numel(std::size_t numel) {
  if (numel > kMaxNumel) {
    throw std::length_error(
        fmt::format("sparse message: the vector has too many elements ({}); at most 2^32", numel));
  }
}

// Returns whether the indices increase strictly and are below numel.
bool increase(std::span<const std::uint32_t> indices, std::uint64_t numel) {
  if (indices.empty()) return true;
  std::uint32_t falls = 0;  // not a bool, and no early return: the loop becomes vector code
  for (std::size_t i = 1; i < indices.size(); ++i) {
    falls |= static_cast<std::uint32_t>(indices[i - 1] >= indices[i]);
  }
  return falls == 0 && indices.back() < numel;
}

void check_entries(const Sparse& entries, std::size_t numel) {
  if (entries.values.size() != entries.size() || !increase(entries.indices, numel)) {
    throw std::invalid_argument(
        fmt::format("encode_sparse: the entries are not a sparse vector of {} elements", numel));
  }
}

// Returns whether an element with this value needs no entry. -0 needs one, so that its sign is
// kept.
bool is_absent(float value) { return std::bit_cast<std::uint32_t>(value) == 0; }

// --- Writing.

Header describe(const Sparse& entries, ValueCoding coding, const SparseAddress& address) {
  Header header;
  header.values = coding;
  header.step = address.step;
  header.numel = address.numel;
  header.count = entries.size();
  header.rice = static_cast<std::uint8_t>(rice::parameter(address.numel, entries.size()));
  header.index_words = static_cast<std::uint32_t>(rice::words(entries.indices, header.rice));
  if (coding == ValueCoding::int5) return header;
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
  out.put(std::uint32_t{0});  // the checksum, which write_checksum fills in at the end
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
  if (header.form == IndexForm::all) {
    const std::size_t width = value_bytes(header.values);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store_values(header.values, Floats(&entries.values[i], 1), body + entries.indices[i] * width);
    }
    return;
  }
  rice::encode(entries.indices, header.rice, body);
  store_values(header.values, entries.values, body + header.index_words * rice::kWordBytes);
}

// --- Reading.

// Reads the header and checks all that can be checked without knowing what the receiver expects.
Header get_header(Bytes in) {
  base::ByteReader reader(in, kCheck.format);
  const std::uint32_t sum = kCheck.begin(reader);
  Header header;
  const auto form = reader.get<std::uint8_t>();
  header.form = static_cast<IndexForm>(form);
  header.values = static_cast<ValueCoding>(reader.get<std::uint8_t>());
  header.rice = reader.get<std::uint8_t>();
  header.index_words = reader.get<std::uint32_t>();
  header.step = reader.get<std::uint64_t>();
  header.numel = reader.get<std::uint64_t>();
  header.count = reader.get<std::uint64_t>();
  // int5 has no code for 0, which elements without entry would need.
  const bool known = header.form == IndexForm::rice ||
                     (header.form == IndexForm::all && header.values != ValueCoding::int5);
  if (!known || header.values > ValueCoding::int5 || header.numel > kMaxNumel ||
      header.count > header.numel) {
    kCheck.refuse("its header is damaged (form {}, values {}, {} of {} entries)", form,
                  static_cast<int>(header.values), header.count, header.numel);
  }
  kCheck.check_whole(in, message_bytes(header), sum);
  return header;
}

// Checks that this is the message that the receiver waits for.
void check_header(const Header& header, ValueCoding coding, const SparseAddress& address,
                  std::size_t max_count) {
  if (header.step != address.step)
    kCheck.refuse("it is of step {}, not {}", header.step, address.step);
  if (header.numel != address.numel) {
    kCheck.refuse("it is of a vector of {} elements, not {}", header.numel, address.numel);
  }
  if (header.values != coding) {
    kCheck.refuse("its values have another format ({}) than agreed ({})",
                  static_cast<int>(header.values), static_cast<int>(coding));
  }
  if (header.count > max_count) {
    kCheck.refuse("it has {} entries, at most {} were agreed", header.count, max_count);
  }
  const unsigned rice =
      header.form == IndexForm::rice ? rice::parameter(header.numel, header.count) : 0;
  if (header.rice != rice) kCheck.refuse("its Rice parameter is {}, must be {}", header.rice, rice);
  if (header.form == IndexForm::all && header.index_words != 0) {
    kCheck.refuse("it has all values and {} words of indices", header.index_words);
  }
}

// Reads a body without indices. It counts the values that are not 0 first, so that the vectors grow
// once.
void get_all(Bytes body, const Header& header, Sparse& out) {
  std::uint64_t present = 0;
  for (std::size_t i = 0; i < header.numel; ++i) {
    present += !is_absent(load_value(header.values, body.data(), i));
  }
  if (present != header.count) {
    kCheck.refuse("it has {} values that are not 0, but its header says {}", present, header.count);
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
  rice::check(stream, header.rice, header.count, header.numel);
  if (header.values == ValueCoding::int5) int5::check(body.subspan(stream.size()), header.count);
  out.indices.resize(header.count);
  out.values.resize(header.count);
  rice::decode(stream, header.rice, out.indices);
  if (header.values == ValueCoding::int5) return int5::load(values, out.values);
  for (std::size_t i = 0; i < header.count; ++i) {
    out.values[i] = load_value(header.values, values, i);
  }
}

// Rounds to nearest, ties to even, but never from finite to infinite: the difference must be a
// number.
float round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return std::bit_cast<float>((bits | 0x400000) & 0xffff0000);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  const bool overflow = magnitude < 0x7f800000 && (rounded & 0x7fffffff) == 0x7f800000;
  return std::bit_cast<float>(overflow ? rounded - 0x10000 : rounded);
}

}  // namespace

std::size_t sparse_max_bytes(ValueCoding coding, std::size_t numel, std::size_t count) {
  check_numel(numel);
  Header header;
  header.values = coding;
  header.numel = numel;
  header.count = std::min(count, numel);
  header.index_words = static_cast<std::uint32_t>(rice::max_words(numel, header.count));
  if (coding == ValueCoding::int5) return message_bytes(header);
  Header dense = header;
  dense.form = IndexForm::all;
  dense.index_words = 0;
  return std::min(message_bytes(header), message_bytes(dense));
}

void round_to_wire(ValueCoding coding, MutFloats values, MutFloats errors) {
  if (coding == ValueCoding::int5) return int5::round(values, errors);
  if (coding == ValueCoding::fp32) {
    std::ranges::fill(errors, 0.0f);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float sent = round_to_bf16(values[i]);
    // A value that is not finite has no error, for the difference would be NaN.
    const bool finite = (std::bit_cast<std::uint32_t>(sent) & 0x7f800000) != 0x7f800000;
    errors[i] = finite ? values[i] - sent : 0;
    values[i] = sent;
  }
}

void encode_sparse(const Sparse& entries, ValueCoding coding, const SparseAddress& address,
                   Payload& out) {
  check_numel(address.numel);
  check_entries(entries, address.numel);
  const Header header = describe(entries, coding, address);
  const std::size_t begin = out.size();
  const std::size_t end = begin + message_bytes(header);
  base::ByteWriter writer(out);
  put_header(header, writer);
  out.resize(end + rice::kWordBytes);  // rice::encode needs a word of scratch behind its stream
  put_body(entries, header, out.data() + begin + kHeaderBytes);
  out.resize(end);
  write_checksum(MutBytes(out).subspan(begin));
}

void decode_sparse(Bytes in, ValueCoding coding, const SparseAddress& address,
                   std::size_t max_count, Sparse& out) {
  const Header header = get_header(in);
  check_header(header, coding, address, max_count);
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
