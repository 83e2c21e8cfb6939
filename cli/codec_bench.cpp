#include "cli/codec_bench.h"

#include <algorithm>
#include <chrono>

#include "cli/laplace.h"
#include "thinwire/codec.h"

namespace thinwire::cli {
namespace {

template <class Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Measurement {
 public:
  Measurement(const CodecPlan& plan, const std::string& spec)
      : plan_(plan),
        codec_(make_codec(spec)),
        gradient_(plan.numel),
        acc_(plan.numel),
        sent_(plan.numel) {
    result_.codec = spec;
  }

  CodecResult run(const RepBegins& rep_begins) {
    const int reps = plan_.warmup + plan_.reps;
    for (int rep = 0; rep < reps; ++rep) {
      rep_begins(rep);
      step(rep, rep == 0 || rep == reps - 1);
    }
    result_.add_seconds = summarize(adds_);
    result_.encode_seconds = summarize(encodes_);
    result_.decode_seconds = summarize(decodes_);
    return result_;
  }

 private:
  void step(int rep, bool checked) {
    const auto number = static_cast<std::uint64_t>(rep);
    fill_laplace(gradient_, plan_.seed, number);
    const double add = seconds_of([&] {
      for (std::size_t i = 0; i < acc_.size(); ++i) acc_[i] += gradient_[i];
    });
    if (checked) before_ = acc_;
    message_.clear();
    const double encode = seconds_of([&] { codec_->encode(acc_, number, message_); });
    std::ranges::fill(sent_, 0.0f);
    const double decode = seconds_of([&] { codec_->decode_add(message_, number, sent_); });
    if (checked) result_.conserved = result_.conserved && conserved();
    before_ = {};
    note_size();
    if (rep < plan_.warmup) return;
    adds_.push_back(add);
    encodes_.push_back(encode);
    decodes_.push_back(decode);
  }

  bool conserved() const {
    for (std::size_t i = 0; i < acc_.size(); ++i) {
      if (sent_[i] + acc_[i] != before_[i]) return false;
    }
    return true;
  }

  void note_size() {
    if (message_.size() < result_.bytes) return;
    result_.bytes = message_.size();
    const auto absent = static_cast<std::size_t>(std::ranges::count(sent_, 0.0f));
    result_.coordinates = std::max<std::size_t>(sent_.size() - absent, 1);
    const double index_bits = index_entropy_bits(sent_.size(), result_.coordinates);
    result_.entropy_bytes_per_coordinate =
        (index_bits / static_cast<double>(result_.coordinates) + codec_->value_bits()) / 8;
  }

  const CodecPlan& plan_;
  std::unique_ptr<Codec> codec_;
  std::vector<float> gradient_, acc_, sent_, before_;
  Payload message_;
  std::vector<double> adds_, encodes_, decodes_;
  CodecResult result_;
};

}  // namespace

CodecResult measure_codec(const CodecPlan& plan, const std::string& codec,
                          const RepBegins& rep_begins) {
  return Measurement(plan, codec).run(rep_begins);
}

}  // namespace thinwire::cli
