#include "message/shard_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "base/bytes.h"
#include "message/checksum.h"
#include "message/header_check.h"
#include "message/rice.h"
#include "message/values.h"

namespace thinwire::message {
namespace {

using Indices = std::span<const std::uint32_t>;

constexpr std::uint32_t kMagic = 0x53505754;  // "TWPS"
constexpr std::uint8_t kVersion = 2;
constexpr HeaderCheck kCheck{"message of a shard", kMagic, kVersion};
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kWord = rice::kWordBytes;
constexpr std::uint64_t kMaxNumel = std::uint64_t{1} << 32;

struct Header {
  ShardForm form = ShardForm::rice;
  ShardAddress address;
  std::uint64_t entries = 0;
  std::uint32_t index_words = 0;  // length of the Rice codes
  std::uint32_t known = 0;        // how many indices both sides know
};

constexpr std::uint64_t bit_words(std::uint64_t bits) { return (bits + 63) / 64; }

std::uint64_t bitmap_words(const Header& header) {
  if (header.form == ShardForm::bitmap) return bit_words(header.address.numel);
  return header.form == ShardForm::relative ? bit_words(header.known) : 0;
}

std::uint64_t message_bytes(const Header& header) {
  const std::uint64_t values =
      header.form == ShardForm::dense ? header.address.numel : header.entries;
  return kHeaderBytes + kWord * (bitmap_words(header) + header.index_words) +
         values * value_bytes(header.address.values);
}

bool test_bit(const std::byte* bits, std::size_t i) {
  return (bits[i / 8] >> i % 8 & std::byte{1}) != std::byte{0};
}
void set_bit(std::byte* bits, std::size_t i) { bits[i / 8] |= static_cast<std::byte>(1 << i % 8); }

// Calls visit(index, whether it is in `known`, its place there) for every index.
template <class Visit>
void find_known(Indices indices, Indices known, Visit visit) {
  std::size_t at = 0;
  for (const std::uint32_t index : indices) {
    while (at < known.size() && known[at] < index) ++at;
    visit(index, at < known.size() && known[at] == index, at);
  }
}

bool increase(Indices indices, std::uint64_t numel) {
  if (indices.empty()) return true;
  const auto falls = [](std::uint32_t a, std::uint32_t b) { return a >= b; };
  return std::ranges::adjacent_find(indices, falls) == indices.end() && indices.back() < numel;
}

std::uint32_t rice_words(Indices indices, std::uint64_t numel) {
  return static_cast<std::uint32_t>(rice::words(indices, rice::parameter(numel, indices.size())));
}

// --- Writing.

// Returns the header of the shortest of the four forms. `others` are the indices that are not in
// `known`.
Header choose(const Sparse& entries, const ShardAddress& address, Indices known, Indices others) {
  std::array<Header, kShardForms> candidates;
  for (std::size_t form = 0; form < kShardForms; ++form) {
    Header& header = candidates[form];
    header.form = static_cast<ShardForm>(form);
    header.address = address;
    header.entries = entries.size();
    if (header.form == ShardForm::rice) {
      header.index_words = rice_words(entries.indices, address.numel);
    } else if (header.form == ShardForm::relative) {
      header.index_words = rice_words(others, address.numel);
      header.known = static_cast<std::uint32_t>(known.size());
    }
  }
  return *std::ranges::min_element(candidates, {}, message_bytes);
}

void put_header(const Header& header, Payload& out) {
  base::ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(std::uint32_t{0});  // the checksum, which write_checksum fills in at the end
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(header.form));
  writer.put(static_cast<std::uint8_t>(header.address.values));
  writer.put(static_cast<std::uint8_t>(header.address.kind));
  writer.put(header.address.shard);
  writer.put(header.address.step);
  writer.put<std::uint64_t>(header.address.numel);
  writer.put(header.entries);
  writer.put(header.index_words);
  writer.put(header.known);
}

std::byte* put_bitmap(Indices indices, Indices known, const Header& header, std::byte* body) {
  const std::size_t bytes = bitmap_words(header) * kWord;
  std::fill_n(body, bytes, std::byte{0});
  if (header.form == ShardForm::bitmap) {
    for (const std::uint32_t index : indices) set_bit(body, index);
  } else if (header.form == ShardForm::relative) {
    find_known(indices, known, [&](std::uint32_t, bool is_known, std::size_t at) {
      if (is_known) set_bit(body, at);
    });
  }
  return body + bytes;
}

// Writes the Rice codes and returns where they end. One word of scratch behind them is overwritten
// by the values.
std::byte* put_rice(Indices indices, std::uint64_t numel, std::uint32_t words, std::byte* body) {
  rice::encode(indices, rice::parameter(numel, indices.size()), body);
  return body + words * kWord;
}

void put_values(const Sparse& entries, const Header& header, std::byte* body) {
  const ValueCoding coding = header.address.values;
  const std::size_t width = value_bytes(coding);
  if (header.form != ShardForm::dense) {
    store_values(coding, entries.values, body);
    return;
  }
  std::fill_n(body, header.address.numel * width, std::byte{0});
  for (std::size_t j = 0; j < entries.size(); ++j) {
    store_values(coding, Floats(&entries.values[j], 1), body + entries.indices[j] * width);
  }
}

// --- Reading.

// Reads the header and checks all that can be checked without knowing what the receiver expects.
Header get_header(Bytes in) {
  base::ByteReader reader(in, kCheck.format);
  const std::uint32_t sum = kCheck.begin(reader);
  Header header;
  header.form = static_cast<ShardForm>(reader.get<std::uint8_t>());
  header.address.values = static_cast<ValueCoding>(reader.get<std::uint8_t>());
  header.address.kind = static_cast<ShardKind>(reader.get<std::uint8_t>());
  header.address.shard = reader.get<std::uint32_t>();
  header.address.step = reader.get<std::uint64_t>();
  header.address.numel = reader.get<std::uint64_t>();
  header.entries = reader.get<std::uint64_t>();
  header.index_words = reader.get<std::uint32_t>();
  header.known = reader.get<std::uint32_t>();
  if (header.form > ShardForm::dense || header.address.values > ValueCoding::fp32 ||
      header.address.numel > kMaxNumel || header.entries > header.address.numel) {
    kCheck.refuse("its header is damaged (form {}, values {}, {} of {} entries)",
                  static_cast<int>(header.form), static_cast<int>(header.address.values),
                  header.entries, header.address.numel);
  }
  kCheck.check_whole(in, message_bytes(header), sum);
  return header;
}

// Checks that this is the message that the receiver waits for.
void check_header(const Header& header, const ShardAddress& expected, std::size_t max_entries,
                  Indices known) {
  const ShardAddress& is = header.address;
  if (is.kind != expected.kind)
    kCheck.refuse("it is a push instead of an aggregate, or the reverse");
  if (is.step != expected.step) kCheck.refuse("it is of step {}, not {}", is.step, expected.step);
  if (is.shard != expected.shard)
    kCheck.refuse("it is of shard {}, not {}", is.shard, expected.shard);
  if (is.numel != expected.numel) {
    kCheck.refuse("it is of a shard of {} elements, not {}", is.numel, expected.numel);
  }
  if (is.values != expected.values) {
    kCheck.refuse("its values have another format ({}) than agreed ({})",
                  static_cast<int>(is.values), static_cast<int>(expected.values));
  }
  if (header.entries > max_entries) {
    kCheck.refuse("it has {} entries, at most {} were agreed", header.entries, max_entries);
  }
  if (header.known != (header.form == ShardForm::relative ? known.size() : 0)) {
    kCheck.refuse("it is relative to {} indices, but {} are known here", header.known,
                  known.size());
  }
  const bool has_gaps = header.form == ShardForm::rice || header.form == ShardForm::relative;
  if (!has_gaps && header.index_words != 0) {
    kCheck.refuse("it has {} words of indices, which its form does not need", header.index_words);
  }
}

void get_rice(Bytes stream, std::uint64_t numel, std::size_t count,
              std::vector<std::uint32_t>& out) {
  const unsigned r = rice::parameter(numel, count);
  rice::check(stream, r, count, numel);
  out.resize(count);
  rice::decode(stream, r, out);
}

// Returns how many of the bits are set. Throws WireError if one behind the last is set.
std::size_t count_bits(Bytes words, std::size_t bits) {
  std::size_t ones = 0;
  for (const std::byte each : words) {
    ones += static_cast<std::size_t>(std::popcount(std::to_integer<std::uint8_t>(each)));
  }
  for (std::size_t i = bits; i < words.size() * 8; ++i) {
    if (test_bit(words.data(), i)) kCheck.refuse("its padding is not 0");
  }
  return ones;
}

// The parts of a message, which lie one behind the other.
struct Body {
  Bytes bitmap, gaps, values;

  Body(Bytes in, const Header& header) {
    in = in.subspan(kHeaderBytes);
    const auto take = [&in](std::size_t bytes) {
      const Bytes out = in.first(bytes);
      in = in.subspan(bytes);
      return out;
    };
    bitmap = take(bitmap_words(header) * kWord);
    gaps = take(header.index_words * kWord);
    values = in;
  }
};

// Returns how many entries the bitmap describes.
std::size_t check_bitmap(Bytes bitmap, const Header& header) {
  const std::size_t bits = header.form == ShardForm::bitmap ? header.address.numel : header.known;
  const std::size_t ones = bitmap.empty() ? 0 : count_bits(bitmap, bits);
  if (ones > header.entries || (header.form == ShardForm::bitmap && ones != header.entries)) {
    kCheck.refuse("{} bits of its bitmap are set for {} entries", ones, header.entries);
  }
  return ones;
}

void check_values(Bytes values, const Header& header) {
  const std::size_t width = value_bytes(header.address.values);
  std::uint64_t present = 0;
  for (std::size_t i = 0; i < values.size() / width; ++i) {
    present += load_value(header.address.values, values.data(), i) != 0;
  }
  if (present != header.entries) {
    kCheck.refuse("it has {} values that are not 0, but its header says {}", present,
                  header.entries);
  }
}

// Reads the entries of a message that was checked. `others` are the indices that its gaps encode.
void get_entries(const Header& header, const Body& body, Indices known, Indices others,
                 Sparse& out) {
  out.clear();
  out.reserve(header.entries);
  const auto value_at = [&](std::size_t i) {
    return load_value(header.address.values, body.values.data(), i);
  };
  const auto append = [&](std::uint32_t index) { out.push_back(index, value_at(out.size())); };
  switch (header.form) {
    case ShardForm::dense:
      for (std::size_t i = 0; i < header.address.numel; ++i) {
        if (value_at(i) != 0) out.push_back(static_cast<std::uint32_t>(i), value_at(i));
      }
      return;
    case ShardForm::bitmap:
      for (std::size_t i = 0; i < header.address.numel; ++i) {
        if (test_bit(body.bitmap.data(), i)) append(static_cast<std::uint32_t>(i));
      }
      return;
    case ShardForm::relative:
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (!test_bit(body.bitmap.data(), i)) continue;
        for (; !others.empty() && others[0] < known[i]; others = others.subspan(1)) {
          append(others[0]);
        }
        append(known[i]);
      }
      [[fallthrough]];
    case ShardForm::rice:
      for (const std::uint32_t index : others) append(index);
  }
}

}  // namespace

std::size_t shard_max_bytes(const ShardAddress& address, std::size_t max_entries) {
  const std::uint64_t numel = address.numel;
  Header header;
  header.address = address;
  header.entries = std::min<std::uint64_t>(max_entries, numel);
  std::uint64_t shortest = UINT64_MAX;
  for (const ShardForm form : {ShardForm::rice, ShardForm::bitmap, ShardForm::dense}) {
    header.form = form;
    header.index_words = form == ShardForm::rice
                             ? static_cast<std::uint32_t>(rice::max_words(numel, header.entries))
                             : 0;
    shortest = std::min(shortest, message_bytes(header));
  }
  return shortest;
}

ShardForm ShardCodec::encode(const Sparse& entries, const ShardAddress& address, Indices known,
                             Payload& out) {
  if (address.numel > kMaxNumel || entries.values.size() != entries.size() ||
      !increase(entries.indices, address.numel)) {
    throw std::invalid_argument(fmt::format(
        "ShardCodec: the entries are not a sparse vector of {} elements", address.numel));
  }
  others_.clear();
  others_.reserve(entries.size());
  find_known(entries.indices, known, [&](std::uint32_t index, bool is_known, std::size_t) {
    if (!is_known) others_.push_back(index);
  });
  const Header header = choose(entries, address, known, others_);
  const std::size_t begin = out.size();
  const std::size_t end = begin + message_bytes(header);
  put_header(header, out);
  out.resize(end + kWord);  // rice::encode needs a word of scratch behind its stream
  std::byte* body = out.data() + begin + kHeaderBytes;
  body = put_bitmap(entries.indices, known, header, body);
  if (header.form == ShardForm::rice) others_ = entries.indices;
  if (header.index_words == 0) others_.clear();
  body = put_rice(others_, address.numel, header.index_words, body);
  put_values(entries, header, body);
  out.resize(end);
  write_checksum(MutBytes(out).subspan(begin));
  return header.form;
}

void ShardCodec::decode(Bytes in, const ShardAddress& address, std::size_t max_entries,
                        Indices known, Sparse& out) {
  const Header header = get_header(in);
  check_header(header, address, max_entries, known);
  const Body body(in, header);
  check_values(body.values, header);
  const std::size_t ones = check_bitmap(body.bitmap, header);
  const bool has_gaps = header.form == ShardForm::rice || header.form == ShardForm::relative;
  others_.reserve(std::min(max_entries, address.numel));
  get_rice(body.gaps, address.numel, has_gaps ? header.entries - ones : 0, others_);
  find_known(others_, ones > 0 ? known : Indices(),
             [](std::uint32_t index, bool is_known, std::size_t) {
               if (is_known) kCheck.refuse("index {} is in its gaps and in its bitmap", index);
             });
  // All checks have passed.
  get_entries(header, body, known, others_, out);
}

}  // namespace thinwire::message
