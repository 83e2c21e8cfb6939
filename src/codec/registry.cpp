#include "thinwire/codec.h"

namespace thinwire {

#define TW_CODEC(word, help) std::unique_ptr<Codec> make_##word(Spec& spec);
#include "codec/list.inc"
#undef TW_CODEC

namespace {
#define TW_CODEC(word, help) Entry<Codec>{#word, help, make_##word},
constexpr Entry<Codec> kCodecs[] = {
#include "codec/list.inc"
};
#undef TW_CODEC
static_assert(names_are_unique(kCodecs));
}  // namespace

std::span<const Entry<Codec>> codecs() { return kCodecs; }

std::unique_ptr<Codec> make_codec(std::string_view spec_text) {
  return make_part("codec", codecs(), spec_text);
}

}  // namespace thinwire
