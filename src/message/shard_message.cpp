#include "message/shard_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "base/bytes.h"
#include "message/checksum.h"
#include "message/rice.h"
#include "message/values.h"

namespace thinwire::message {
namespace {

using Indices = std::span<const std::uint32_t>;

constexpr std::uint32_t kMagic = 0x53505754;  // "TWPS"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 56;
constexpr std::size_t kWord = rice::kWordBytes;
constexpr std::uint64_t kMaxNumel = std::uint64_t{1} << 32;

struct Header {
  ShardForm form = ShardForm::rice;
  ShardAddress address;
  std::uint64_t entries = 0;
  std::uint32_t proposals = 0;
  std::uint32_t index_words = 0;     // of the Rice codes of entries
  std::uint32_t proposal_words = 0;  // of the Rice codes of proposals
  std::uint32_t known = 0;           // indices that both sides know
};

constexpr std::uint64_t bit_words(std::uint64_t bits) { return (bits + 63) / 64; }

std::uint64_t bitmap_words(const Header& header) {
  if (header.form == ShardForm::bitmap) return bit_words(header.address.numel);
  return header.form == ShardForm::relative ? bit_words(header.known) : 0;
}

std::uint64_t message_bytes(const Header& header) {
  const std::uint64_t values =
      header.form == ShardForm::dense ? header.address.numel : header.entries;
  return kHeaderBytes +
         kWord * (bitmap_words(header) + header.index_words + header.proposal_words) +
         values * value_bytes(header.address.values);
}

bool test_bit(const std::byte* bits, std::size_t i) {
  return (bits[i / 8] >> i % 8 & std::byte{1}) != std::byte{0};
}
void set_bit(std::byte* bits, std::size_t i) { bits[i / 8] |= static_cast<std::byte>(1 << i % 8); }

// Calls visit(i, among known, where there) for every index.
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

template <class... Parts>
[[noreturn]] void refuse(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw WireError("message of a shard: " + fmt::format(format, std::forward<Parts>(parts)...));
}

// --- Writing.

// The shortest header of the four. `others` are the entries' indices that are not known.
Header choose(const ShardContents& contents, const ShardAddress& address, Indices known,
              Indices others) {
  std::array<Header, kShardForms> candidates;
  for (std::size_t form = 0; form < kShardForms; ++form) {
    Header& header = candidates[form];
    header.form = static_cast<ShardForm>(form);
    header.address = address;
    header.entries = contents.entries.size();
    header.proposals = static_cast<std::uint32_t>(contents.proposals.size());
    header.proposal_words = rice_words(contents.proposals, address.numel);
    if (header.form == ShardForm::rice) {
      header.index_words = rice_words(contents.entries.indices, address.numel);
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
  writer.put(std::uint32_t{0});  // the checksum, once there is something to sum
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(header.form));
  writer.put(static_cast<std::uint8_t>(header.address.values));
  writer.put(static_cast<std::uint8_t>(header.address.kind));
  writer.put(header.address.shard);
  writer.put(header.address.step);
  writer.put<std::uint64_t>(header.address.numel);
  writer.put(header.entries);
  writer.put(header.proposals);
  writer.put(header.index_words);
  writer.put(header.proposal_words);
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

// Leaves scratch behind the stream, which what follows writes over.
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

// Everything that the first bytes alone tell.
Header get_header(Bytes in) {
  base::ByteReader reader(in, "message of a shard");
  if (reader.get<std::uint32_t>() != kMagic) refuse("does not begin with its magic number");
  const auto sum = reader.get<std::uint32_t>();
  if (const int version = reader.get<std::uint8_t>(); version != kVersion) {
    refuse("of version {}, not {}: run the same version everywhere", version, kVersion);
  }
  Header header;
  header.form = static_cast<ShardForm>(reader.get<std::uint8_t>());
  header.address.values = static_cast<ValueCoding>(reader.get<std::uint8_t>());
  header.address.kind = static_cast<ShardKind>(reader.get<std::uint8_t>());
  header.address.shard = reader.get<std::uint32_t>();
  header.address.step = reader.get<std::uint64_t>();
  header.address.numel = reader.get<std::uint64_t>();
  header.entries = reader.get<std::uint64_t>();
  header.proposals = reader.get<std::uint32_t>();
  header.index_words = reader.get<std::uint32_t>();
  header.proposal_words = reader.get<std::uint32_t>();
  header.known = reader.get<std::uint32_t>();
  if (header.form > ShardForm::dense || header.address.values > ValueCoding::fp32 ||
      header.address.numel > kMaxNumel || header.entries > header.address.numel ||
      header.proposals > header.address.numel) {
    refuse("its header is damaged");
  }
  if (in.size() != message_bytes(header)) {
    refuse("{} bytes long, its header says {}", in.size(), message_bytes(header));
  }
  if (sum != checksum(in)) refuse("damaged on the way: its checksum is wrong");
  return header;
}

// Is it the message that this receiver waits for?
void check_header(const Header& header, const ShardAddress& expected, const ShardLimits& limits,
                  Indices known) {
  const ShardAddress& is = header.address;
  if (is.kind != expected.kind) refuse("a push instead of an aggregate, or the other way round");
  if (is.step != expected.step) refuse("of step {}, not {}", is.step, expected.step);
  if (is.shard != expected.shard) refuse("of shard {}, not {}", is.shard, expected.shard);
  if (is.numel != expected.numel) {
    refuse("of a shard of {} elements, not {}", is.numel, expected.numel);
  }
  if (is.values != expected.values) refuse("in another format than was agreed");
  if (header.entries > limits.entries || header.proposals > limits.proposals) {
    refuse("{} entries and {} proposals, at most {} and {} were agreed", header.entries,
           header.proposals, limits.entries, limits.proposals);
  }
  if (header.known != (header.form == ShardForm::relative ? known.size() : 0)) {
    refuse("relative to {} indices, {} are known here", header.known, known.size());
  }
  const bool has_gaps = header.form == ShardForm::rice || header.form == ShardForm::relative;
  if (!has_gaps && header.index_words != 0) refuse("gaps between indices that it does not need");
}

void get_rice(Bytes stream, std::uint64_t numel, std::size_t count,
              std::vector<std::uint32_t>& out) {
  const unsigned r = rice::parameter(numel, count);
  rice::check(stream, r, count, numel);
  out.resize(count);
  rice::decode(stream, r, out);
}

// Ones among the bits; none may stand behind the last.
std::size_t count_bits(Bytes words, std::size_t bits) {
  std::size_t ones = 0;
  for (const std::byte each : words) {
    ones += static_cast<std::size_t>(std::popcount(std::to_integer<std::uint8_t>(each)));
  }
  for (std::size_t i = bits; i < words.size() * 8; ++i) {
    if (test_bit(words.data(), i)) refuse("its padding is not 0");
  }
  return ones;
}

// Where the parts of a message are.
struct Body {
  Bytes bitmap, gaps, proposals, values;

  Body(Bytes in, const Header& header) {
    in = in.subspan(kHeaderBytes);
    const auto take = [&in](std::size_t bytes) {
      const Bytes out = in.first(bytes);
      in = in.subspan(bytes);
      return out;
    };
    bitmap = take(bitmap_words(header) * kWord);
    gaps = take(header.index_words * kWord);
    proposals = take(header.proposal_words * kWord);
    values = in;
  }
};

// Entries that the bitmap tells.
std::size_t check_bitmap(Bytes bitmap, const Header& header) {
  const std::size_t bits = header.form == ShardForm::bitmap ? header.address.numel : header.known;
  const std::size_t ones = bitmap.empty() ? 0 : count_bits(bitmap, bits);
  if (ones > header.entries || (header.form == ShardForm::bitmap && ones != header.entries)) {
    refuse("{} bits are set for {} entries", ones, header.entries);
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
    refuse("{} values that are not 0, its header says {}", present, header.entries);
  }
}

// Of a message that was checked. `others`: the indices that its gaps tell.
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

std::size_t shard_max_bytes(const ShardAddress& address, const ShardLimits& limits) {
  const std::uint64_t numel = address.numel;
  const auto most = [numel](std::size_t count) { return std::min<std::uint64_t>(count, numel); };
  Header header;
  header.address = address;
  header.entries = most(limits.entries);
  header.proposal_words =
      static_cast<std::uint32_t>(rice::max_words(numel, most(limits.proposals)));
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

ShardForm ShardCodec::encode(const ShardContents& contents, const ShardAddress& address,
                             Indices known, Payload& out) {
  const Sparse& entries = contents.entries;
  if (address.numel > kMaxNumel || entries.values.size() != entries.size() ||
      !increase(entries.indices, address.numel) || !increase(contents.proposals, address.numel)) {
    throw std::invalid_argument("ShardCodec: the entries are not a sparse vector of the shard");
  }
  others_.clear();
  others_.reserve(entries.size());
  find_known(entries.indices, known, [&](std::uint32_t index, bool is_known, std::size_t) {
    if (!is_known) others_.push_back(index);
  });
  const Header header = choose(contents, address, known, others_);
  const std::size_t begin = out.size();
  const std::size_t end = begin + message_bytes(header);
  put_header(header, out);
  out.resize(end + kWord);  // the scratch of rice::encode
  std::byte* body = out.data() + begin + kHeaderBytes;
  body = put_bitmap(entries.indices, known, header, body);
  if (header.form == ShardForm::rice) others_ = entries.indices;
  if (header.index_words == 0) others_.clear();
  body = put_rice(others_, address.numel, header.index_words, body);
  body = put_rice(contents.proposals, address.numel, header.proposal_words, body);
  put_values(entries, header, body);
  out.resize(end);
  write_checksum(MutBytes(out).subspan(begin));
  return header.form;
}

void ShardCodec::decode(Bytes in, const ShardAddress& address, const ShardLimits& limits,
                        Indices known, ShardContents& out) {
  const Header header = get_header(in);
  check_header(header, address, limits, known);
  const Body body(in, header);
  check_values(body.values, header);
  const std::size_t ones = check_bitmap(body.bitmap, header);
  const bool has_gaps = header.form == ShardForm::rice || header.form == ShardForm::relative;
  others_.reserve(std::min(limits.entries, address.numel));
  get_rice(body.gaps, address.numel, has_gaps ? header.entries - ones : 0, others_);
  find_known(others_, ones > 0 ? known : Indices(),
             [](std::uint32_t index, bool is_known, std::size_t) {
               if (is_known) refuse("index {} is among those that it is relative to", index);
             });
  rice::check(body.proposals, rice::parameter(address.numel, header.proposals), header.proposals,
              address.numel);
  // Nothing is wrong with it.
  get_rice(body.proposals, address.numel, header.proposals, out.proposals);
  get_entries(header, body, known, others_, out.entries);
}

}  // namespace thinwire::message
