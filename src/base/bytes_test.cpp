#include "base/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <limits>
#include <stdexcept>

#include "testing/expect.h"

namespace thinwire::base {
namespace {

TEST(Bytes, AreLittleEndian) {
  Payload out;
  ByteWriter writer(out);
  writer.put(std::uint32_t{0x01020304});
  writer.put(std::uint16_t{0x0506});
  writer.put(1.0f);
  writer.put_text("hi");
  const std::uint8_t expected[] = {4, 3, 2, 1, 6, 5, 0, 0, 0x80, 0x3f, 2, 0, 0, 0, 'h', 'i'};
  const Bytes raw = std::as_bytes(std::span(expected));
  EXPECT_EQ(out, Payload(raw.begin(), raw.end()));
}

TEST(Bytes, WriterAppends) {
  Payload out(3, std::byte{9});
  ByteWriter(out).put(std::uint8_t{1});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[2], std::byte{9});
  EXPECT_EQ(out[3], std::byte{1});
}

TEST(Bytes, ErrorsNameWhatAndWhere) {
  Payload out;
  ByteWriter(out).put_text("four");
  const auto text = [&](std::size_t bytes, auto read) {
    ByteReader reader(Bytes(out).first(bytes), "checkpoint 'x'");
    return std::string(test::must_throw<WireError>([&] { read(reader); }).what());
  };
  EXPECT_EQ(text(3, [](ByteReader& r) { r.get<std::uint32_t>(); }),
            "checkpoint 'x': truncated at byte 0 (4 bytes needed, 3 left)");
  EXPECT_EQ(text(7, [](ByteReader& r) { r.get_text(10); }),
            "checkpoint 'x': truncated at byte 4 (4 bytes needed, 3 left)");
  EXPECT_EQ(text(8, [](ByteReader& r) { r.get_text(3); }),
            "checkpoint 'x': text at byte 0 is too long (4 bytes; at most 3)");
  EXPECT_EQ(text(8, [](ByteReader& r) { r.take(4), r.expect_end(); }),
            "checkpoint 'x': unexpected bytes after byte 4 (4 bytes)");
}

TEST(Bytes, AbsurdLengthsAreRefusedBeforeAnythingIsAllocated) {
  Payload out;
  ByteWriter(out).put(std::numeric_limits<std::uint32_t>::max());
  EXPECT_THROW(ByteReader(out, "text").get_text(100), WireError);
  EXPECT_THROW(ByteReader(out, "text").get_text(std::numeric_limits<std::size_t>::max()),
               WireError);
  EXPECT_THROW(ByteReader(out, "text").take(std::numeric_limits<std::size_t>::max()), WireError);
  const char one = 'x';
  const std::string_view endless(&one, std::size_t{1} << 32);  // refused before it is read
  EXPECT_THROW(ByteWriter(out).put_text(endless), std::length_error);
  EXPECT_EQ(out.size(), 4u);
}

TEST(Bytes, AnEmptyInputHasNothingLeft) {
  ByteReader reader({}, "nothing");
  reader.expect_end();
  EXPECT_EQ(reader.take(0).size(), 0u);
  EXPECT_EQ(reader.left(), 0u);
  EXPECT_THROW(reader.get<std::uint8_t>(), WireError);
  reader.expect_end();
}

struct Record {
  std::uint8_t a;
  std::int16_t b;
  std::uint32_t c;
  std::int64_t d;
  float e;
  double f;
  std::string g;
  std::vector<std::uint8_t> h;

  void write(Payload& out) const {
    ByteWriter writer(out);
    writer.put(a), writer.put(b), writer.put(c), writer.put(d), writer.put(e), writer.put(f);
    writer.put_text(g);
    writer.put(static_cast<std::uint64_t>(h.size()));
    writer.put(std::as_bytes(std::span(h)));
  }
  static Record read(Bytes in) {
    ByteReader reader(in, "record");
    Record r{};
    r.a = reader.get<std::uint8_t>(), r.b = reader.get<std::int16_t>();
    r.c = reader.get<std::uint32_t>(), r.d = reader.get<std::int64_t>();
    r.e = reader.get<float>(), r.f = reader.get<double>(), r.g = reader.get_text(1000);
    const Bytes raw = reader.take(reader.get<std::uint64_t>());
    for (const std::byte byte : raw) r.h.push_back(std::to_integer<std::uint8_t>(byte));
    reader.expect_end();
    return r;
  }
};

Record any_record() {
  return {*rc::gen::arbitrary<std::uint8_t>(),  *rc::gen::arbitrary<std::int16_t>(),
          *rc::gen::arbitrary<std::uint32_t>(), *rc::gen::arbitrary<std::int64_t>(),
          *rc::gen::arbitrary<float>(),         *rc::gen::arbitrary<double>(),
          *rc::gen::arbitrary<std::string>(),   *rc::gen::arbitrary<std::vector<std::uint8_t>>()};
}

RC_GTEST_PROP(BytesProperty, ReadsBackWhatWasWritten, ()) {
  const Record in = any_record();
  Payload bytes, again;
  in.write(bytes);
  const Record out = Record::read(bytes);
  out.write(again);  // compared as bytes, so that NaN equals itself
  RC_ASSERT(again == bytes);
  RC_ASSERT(out.g == in.g);
  RC_ASSERT(out.h == in.h);
}

RC_GTEST_PROP(BytesProperty, EveryOtherLengthIsRefused, ()) {
  Payload bytes;
  any_record().write(bytes);
  for (std::size_t shorter = 0; shorter < bytes.size(); ++shorter) {
    // The copy has exactly this size, so that a sanitizer detects any read past its end.
    const Payload cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(shorter));
    RC_ASSERT_THROWS_AS(Record::read(cut), WireError);
  }
  bytes.push_back(std::byte{0});
  RC_ASSERT_THROWS_AS(Record::read(bytes), WireError);
}

RC_GTEST_PROP(BytesProperty, ForeignBytesAreReadOrRefused,
              (const std::vector<std::uint8_t>& foreign)) {
  try {
    Record::read(std::as_bytes(std::span(foreign)));
  } catch (const WireError&) {
  }
}

}  // namespace
}  // namespace thinwire::base
